//! What a plan says of itself in its first bytes, without TensorRT.
//!
//! ```text
//! byte  0  "ftrt" TensorRT, "vtrt" TensorRT-RTX
//!       4  u32  layout of the header; 0 is the one known
//!       8  u64  number of sections
//!      16  u64  bytes of the whole plan
//!      24  u8   major, minor, patch and build of the library that built it
//!      28  …    per section a tag ("NGNE", "THGW") with its host, from byte 64 on
//! ```
//!
//! Tag, layout and version are what `trtexec --getPlanVersionOnly` reads (`samples/common/sampleEngines.cpp` of NVIDIA/TensorRT, layout 0). The size was
//! found in plans that TensorRT-RTX 1.7.1 built, every one of which states its own; its code compares the two. Of another
//! layout only the SDK is known.

use crate::library::Library;
use crate::plan::error::PlanError;
use crate::plan::target::{Host, Known, fits};
use crate::plan::version::ExactVersion;
use crate::sdk::{Sdk, Version};

/// Bytes that are needed to know all that is known.
pub const HEADER_BYTES: usize = 28;

/// The tags with which plans begin.
const TAGS: [(&[u8; 4], Sdk); 2] = [(b"ftrt", Sdk::TensorRt), (b"vtrt", Sdk::TensorRtRtx)];

/// What a plan says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanHeader {
    /// Whose plan it is.
    pub sdk: Sdk,
    /// The version that built it; none of a layout that is not known.
    pub version: Option<ExactVersion>,
    /// How many bytes the whole plan has, by its own account.
    pub bytes: Option<u64>,
}

impl PlanHeader {
    /// Reads the first bytes of a plan; of a whole plan as much as is needed.
    pub fn read(start: &[u8]) -> Result<PlanHeader, PlanError> {
        let foreign = |reason: String| Err(PlanError::NotAPlan { reason });
        let Some((tag, rest)) = start.split_first_chunk::<4>() else {
            return foreign(
                if start.is_empty() { "it is empty" } else { "it ends within its first bytes" }
                    .to_owned(),
            );
        };
        let Some(&(_, sdk)) = TAGS.iter().find(|(known, _)| *known == tag) else {
            return foreign(unlike(*tag));
        };
        let layout = rest.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes));
        let (Some(0), Some(header)) = (layout, start.first_chunk::<HEADER_BYTES>()) else {
            return Ok(PlanHeader { sdk, version: None, bytes: None });
        };
        let [major, minor, patch, build] = [24, 25, 26, 27].map(|at| u32::from(header[at]));
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&header[16..24]);
        Ok(PlanHeader {
            sdk,
            version: Some(ExactVersion {
                version: Version { major, minor, patch },
                build: Some(build),
            }),
            // Not proven of TensorRT's plans: there a wrong guess would refuse what is whole.
            bytes: (sdk == Sdk::TensorRtRtx).then(|| u64::from_le_bytes(bytes)),
        })
    }

    /// Proves that a plan of this header is all there, as far as it says.
    pub fn check_size(&self, found: u64) -> Result<(), PlanError> {
        match self.bytes {
            Some(stated) if found < stated => {
                Err(PlanError::Truncated { found, expected: stated, by: "its own header" })
            }
            Some(stated) if found > stated => Err(PlanError::Overlong { found, expected: stated }),
            _ => Ok(()),
        }
    }

    /// Proves that a library can run a plan of this header, as far as it says.
    ///
    /// A version-compatible plan of TensorRT runs on other versions, and does not say that it is one: its manifest does.
    pub fn check_library(&self, library: &Library) -> Result<(), PlanError> {
        let known = Known {
            sdk: self.sdk,
            version: self.certain_version(),
            version_compatible: false,
            runs_on: None,
            built_on: None,
        };
        fits(known, Host::of(library, None)).map(drop)
    }

    /// The version that alone can run the plan, where the header is enough to know.
    pub(crate) fn certain_version(&self) -> Option<ExactVersion> {
        self.version.filter(|_| self.sdk == Sdk::TensorRtRtx)
    }
}

/// Whether these bytes begin a plan of either SDK.
pub fn begins_as_plan(start: &[u8]) -> bool {
    TAGS.iter().any(|(tag, _)| start.starts_with(&tag[..]))
}

/// What else a file with such a beginning may be.
fn unlike(tag: [u8; 4]) -> String {
    match tag {
        [_, b't', b'r', b't'] => {
            let tag = tag.escape_ascii();
            format!("its tag `{tag}` is of neither TensorRT (`ftrt`) nor TensorRT-RTX (`vtrt`)")
        }
        [0x08, ..] => "it looks like an ONNX model".to_owned(),
        [b'P', b'K', 3, 4] => "it is a ZIP archive".to_owned(),
        [0x1f, 0x8b, ..] => "it is compressed with gzip".to_owned(),
        [b'{', ..] => "it is JSON".to_owned(),
        [b'v', b'e', b'r', b's'] => {
            "it is a pointer of Git LFS or a text, not the file itself".to_owned()
        }
        _ => "it does not begin as one".to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The first bytes of a plan as TensorRT-RTX 1.7.1.116 writes them, by the layout above.
    pub(crate) fn rtx_plan(body: usize) -> Vec<u8> {
        let size = (64 + body) as u64;
        let mut plan = b"vtrt".to_vec();
        plan.extend(0_u32.to_le_bytes());
        plan.extend(2_u64.to_le_bytes());
        plan.extend(size.to_le_bytes());
        plan.extend([1, 7, 1, 116]);
        plan.resize(64 + body, 7);
        plan
    }

    #[test]
    fn the_header_says_sdk_version_and_size() {
        let plan = rtx_plan(100);
        let header = PlanHeader::read(&plan).unwrap();
        assert_eq!(header.sdk, Sdk::TensorRtRtx);
        assert_eq!(header.version.unwrap().to_string(), "1.7.1.116");
        assert_eq!(header.bytes, Some(164));
        header.check_size(164).unwrap();
        let error = header.check_size(100).unwrap_err();
        assert!(matches!(error, PlanError::Truncated { found: 100, expected: 164, .. }), "{error}");
        assert!(matches!(header.check_size(165), Err(PlanError::Overlong { .. })));
    }

    #[test]
    fn of_another_layout_or_sdk_only_what_is_sure_is_said() {
        let mut plan = rtx_plan(0);
        plan[4] = 1;
        let header = PlanHeader::read(&plan).unwrap();
        assert_eq!((header.version, header.bytes), (None, None));
        header.check_size(3).unwrap();
        plan[4] = 0;
        plan[0] = b'f';
        plan[24..28].copy_from_slice(&[11, 4, 0, 106]);
        let header = PlanHeader::read(&plan).unwrap();
        assert_eq!((header.sdk, header.bytes), (Sdk::TensorRt, None));
        assert_eq!(header.version.unwrap().to_string(), "11.4.0.106");
        assert_eq!(PlanHeader::read(b"vtrt").unwrap().version, None);
        assert_eq!(PlanHeader::read(b"vtrt{}").unwrap().version, None);
    }

    #[test]
    fn what_is_no_plan_is_told_what_it_is() {
        let cases: [(&[u8], &str); 9] = [
            (b"", "it is empty"),
            (b"ft", "it ends within its first bytes"),
            (b"\x08\x08\x12\x07", "it looks like an ONNX model"),
            (b"trtf", "it does not begin as one"),
            (b"qtrt....", "of neither TensorRT"),
            (b"PK\x03\x04", "ZIP archive"),
            (b"\x1f\x8b\x08\x00", "gzip"),
            (b"{\"schema\": 1}", "it is JSON"),
            (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        ];
        for (bytes, expected) in cases {
            let error = PlanHeader::read(bytes).unwrap_err().to_string();
            assert!(error.starts_with("not a TensorRT plan: "), "{error}");
            assert!(error.contains(expected), "{error}");
            assert!(!begins_as_plan(bytes));
        }
        assert!(begins_as_plan(&rtx_plan(0)));
    }
}
