//! Words and figures, written the same way in every view.
