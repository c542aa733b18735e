use crate::RunRecord;
/// Stub.
pub fn render_html(_record: &RunRecord) -> String {
    String::new()
}
