// Shows only the rows whose words hold those typed. Without this script the page shows them all. One box for each section that has many.
document.querySelectorAll('.search').forEach(function (box) {
  box.hidden = false;
  var input = box.querySelector('input');
  var output = box.querySelector('output');
  var section = box.parentNode;
  var row = 'li, tr.found';
  var items = [];
  section.querySelectorAll('.group').forEach(function (group) {
    // A list of tensors shares its reason; a table says everything in its rows.
    var reason = group.querySelector('.tensors') && group.querySelector('p');
    var shared = reason ? reason.textContent : '';
    group.querySelectorAll(row).forEach(function (item) {
      items.push({ item: item, text: (item.textContent + ' ' + shared).toLowerCase() });
    });
  });
  var shown = 'li:not([hidden]), tr.found:not([hidden])';
  var folds = Array.prototype.slice.call(section.querySelectorAll('details'));
  var open = null;
  function apply() {
    var words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    var searching = words.length > 0;
    if (searching && !open) open = folds.map(function (fold) { return fold.open; });
    var found = 0;
    items.forEach(function (entry) {
      var match = words.every(function (word) { return entry.text.indexOf(word) >= 0; });
      entry.item.hidden = !match;
      if (match) found += 1;
    });
    section.querySelectorAll('.group').forEach(function (group) {
      group.hidden = !group.querySelector(shown);
    });
    folds.forEach(function (fold, index) {
      var any = !!fold.querySelector(shown);
      fold.hidden = !any;
      fold.open = searching ? any : open ? open[index] : fold.open;
    });
    if (!searching) open = null;
    output.textContent = searching ? found + ' of ' + items.length : '';
  }
  input.addEventListener('input', apply);
});
