// Shows only the tensors whose name, node or reason holds the words typed. Without this script the page shows them all.
(function () {
  var box = document.querySelector('.search');
  if (!box) return;
  box.hidden = false;
  var input = box.querySelector('input');
  var output = box.querySelector('output');
  var section = box.parentNode;
  var items = [];
  section.querySelectorAll('.group').forEach(function (group) {
    var shared = group.querySelector('p').textContent;
    group.querySelectorAll('li').forEach(function (item) {
      items.push({ item: item, text: (item.textContent + ' ' + shared).toLowerCase() });
    });
  });
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
      group.hidden = !group.querySelector('li:not([hidden])');
    });
    folds.forEach(function (fold, index) {
      var any = !!fold.querySelector('li:not([hidden])');
      fold.hidden = !any;
      fold.open = searching ? any : open ? open[index] : fold.open;
    });
    if (!searching) open = null;
    output.textContent = searching ? found + ' of ' + items.length : '';
  }
  input.addEventListener('input', apply);
})();
