//! Writes every view of the made-up runs of the tests into a folder, to look at them: `cargo run --example pages FOLDER`.

#[path = "../tests/sample/mod.rs"]
mod sample;

use std::path::PathBuf;
use std::{env, fs, io};

use trtforge_report::{TerminalStyle, render_html, render_junit, render_markdown, render_terminal};

fn main() -> io::Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).unwrap_or_else(|| "pages".into()));
    fs::create_dir_all(&folder)?;
    let records = [
        ("checked", sample::checked_only()),
        ("accepted", sample::accepted(12)),
        ("returned", sample::returned(6)),
        ("rejected", sample::rejected(6)),
        ("inconclusive", sample::inconclusive()),
        ("not-finite", sample::not_finite()),
        ("hostile", sample::hostile(&sample::hostile_names().concat())),
        ("large", sample::rejected(340)),
    ];
    for (name, record) in records {
        let style = TerminalStyle { color: true, width: 80, folder: Some("out/sentiment".into()) };
        let views = [
            ("json", record.to_json()),
            ("html", render_html(&record)),
            ("md", render_markdown(&record)),
            ("xml", render_junit(&record)),
            ("txt", render_terminal(&record, &style)),
        ];
        for (extension, text) in views {
            fs::write(folder.join(format!("{name}.{extension}")), text)?;
        }
    }
    Ok(())
}
