//! `trtforge completions` and `trtforge man`: both from the definition of the command line.

use clap::CommandFactory;
use serde_json::json;

use super::print;
use crate::cli::{Cli, CompletionsArgs};
use crate::error::PipelineError;
use crate::store::StoreError;

/// Prints the completion script of a shell.
pub fn completions(args: &CompletionsArgs) -> Result<(), PipelineError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "trtforge", &mut script);
    print_text(&script)
}

/// Prints one manual page: the command, then each subcommand with its options and examples.
pub fn man() -> Result<(), PipelineError> {
    let mut command = Cli::command();
    command.build();
    let mut page = Vec::new();
    let written = render(&command, &mut page);
    written.map_err(StoreError::io("write", std::path::Path::new("the manual page")))?;
    print_text(&page)
}

fn render(command: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let man = clap_mangen::Man::new(command.clone());
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    for subcommand in visible(command) {
        render_subcommand(subcommand, page)?;
    }
    man.render_extra_section(page)?;
    man.render_version_section(page)
}

/// One section; subcommands of a subcommand follow it as sections of their own.
fn render_subcommand(command: &clap::Command, page: &mut Vec<u8>) -> std::io::Result<()> {
    let title = command.get_bin_name().unwrap_or(command.get_name()).to_uppercase();
    page.extend_from_slice(format!(".SH \"{title}\"\n").as_bytes());
    let mut sections = Vec::new();
    let man = clap_mangen::Man::new(command.clone());
    man.render_synopsis_section(&mut sections)?;
    man.render_description_section(&mut sections)?;
    man.render_options_section(&mut sections)?;
    man.render_extra_section(&mut sections)?;
    // Within the section of a subcommand these are one level down.
    page.extend_from_slice(String::from_utf8_lossy(&sections).replace(".SH ", ".SS ").as_bytes());
    visible(command).try_for_each(|inner| render_subcommand(inner, page))
}

fn visible(command: &clap::Command) -> impl Iterator<Item = &clap::Command> {
    command.get_subcommands().filter(|inner| inner.get_name() != "help")
}

fn print_text(bytes: &[u8]) -> Result<(), PipelineError> {
    Ok(print(false, &json!(null), &String::from_utf8_lossy(bytes))?)
}
