use crate::RunRecord;

/// How the terminal view may look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalStyle {
    /// Whether to use ANSI colours.
    pub color: bool,
    /// Columns available.
    pub width: usize,
    /// The output folder as the user wrote it, put before the files' paths; none leaves them relative.
    pub folder: Option<String>,
}
/// Stub.
pub fn render_terminal(_record: &RunRecord, _style: &TerminalStyle) -> String {
    String::new()
}
