use crate::RunRecord;
/// Stub.
pub fn render_markdown(_record: &RunRecord) -> String {
    String::new()
}
