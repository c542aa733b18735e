//! The timing cache of a build: read, checked, given to the library, and written back.

use std::io::ErrorKind;

use trtforge_tensorrt_sys::CacheFit;

use crate::error::TensorRtError;
use crate::options::{BuildOptions, Pin, TimingCache};
use crate::session::Session;

/// How a timing cache served a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimingCacheUse {
    /// What the file was to the build.
    pub found: CacheFound,
    /// The hash of the file as the build found it; none where there was no file.
    pub before: Option<Pin>,
    /// The hash of the cache after the build.
    pub after: Pin,
    /// Size of the cache after the build.
    pub bytes: usize,
}

impl TimingCacheUse {
    /// Whether the build had timings of an earlier one.
    pub fn reused(&self) -> bool {
        self.found == CacheFound::Reused
    }

    /// Whether the build timed something that the cache lacked.
    pub fn grew(&self) -> bool {
        self.before != Some(self.after)
    }
}

/// What a timing cache's file was to a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheFound {
    /// It was there and was used.
    Reused,
    /// There was none.
    Absent,
    /// It was of another version or GPU, and made way for a new one.
    Foreign,
    /// It was no timing cache, or cut short, and made way for a new one.
    Broken,
}

/// A cache as it was found.
pub(crate) struct Loaded {
    found: CacheFound,
    before: Option<Pin>,
}

impl Session {
    pub(crate) fn load_timing_cache(
        &mut self,
        options: &BuildOptions,
    ) -> Result<Option<Loaded>, TensorRtError> {
        let Some(cache) = &options.timing_cache else { return Ok(None) };
        let Some(bytes) = read(cache)? else {
            self.fresh_timing_cache()?;
            return Ok(Some(Loaded { found: CacheFound::Absent, before: None }));
        };
        let found = match self.try_shim(|builder| builder.set_timing_cache(&bytes))? {
            CacheFit::Fits => CacheFound::Reused,
            CacheFit::Foreign => CacheFound::Foreign,
            _ => CacheFound::Broken,
        };
        if found != CacheFound::Reused {
            if !cache.replace || cache.pin.is_some() {
                return Err(unfit(cache, found));
            }
            self.fresh_timing_cache()?;
        }
        Ok(Some(Loaded { found, before: Some(Pin::of(&bytes)) }))
    }

    fn fresh_timing_cache(&mut self) -> Result<(), TensorRtError> {
        match self.try_shim(|builder| builder.set_timing_cache(&[]))? {
            CacheFit::Fits => Ok(()),
            _ => Err(TensorRtError::Library {
                sdk: self.sdk(),
                reason: "it does not take an empty timing cache".to_owned(),
                log: self.log(),
            }),
        }
    }

    /// Writes the cache back, unless it is pinned or has not changed.
    pub(crate) fn save_timing_cache(
        &mut self,
        options: &BuildOptions,
        loaded: Option<Loaded>,
    ) -> Result<Option<TimingCacheUse>, TensorRtError> {
        let (Some(cache), Some(Loaded { found, before })) = (&options.timing_cache, loaded) else {
            return Ok(None);
        };
        let bytes = self.try_shim(|builder| builder.timing_cache())?;
        let Some(bytes) = bytes.as_ref() else { return Ok(None) };
        let after = Pin::of(bytes.bytes());
        if cache.pin.is_none() && before != Some(after) {
            trtforge_files::write(&cache.path, bytes.bytes())
                .map_err(|error| io_error(cache, "written", &error))?;
        }
        Ok(Some(TimingCacheUse { found, before, after, bytes: bytes.bytes().len() }))
    }
}

/// The cache's bytes; none where there is no file yet. A pinned cache must be there and be the one.
pub(crate) fn read(cache: &TimingCache) -> Result<Option<Vec<u8>>, TensorRtError> {
    let bytes = match std::fs::read(&cache.path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound && cache.pin.is_none() => {
            return Ok(None);
        }
        Err(error) => return Err(io_error(cache, "read", &error)),
    };
    let found = Pin::of(&bytes);
    match cache.pin {
        Some(wanted) if wanted != found => {
            Err(TensorRtError::TimingCachePin { path: cache.path.clone(), wanted, found })
        }
        // An empty file would start a new cache.
        _ if bytes.is_empty() && !cache.replace => Err(unfit(cache, CacheFound::Broken)),
        _ if bytes.is_empty() => Ok(None),
        _ => Ok(Some(bytes)),
    }
}

fn unfit(cache: &TimingCache, found: CacheFound) -> TensorRtError {
    let reason = match found {
        CacheFound::Foreign => "it was made by another version of TensorRT or for another GPU",
        _ => "it is no timing cache, or is cut short",
    };
    TensorRtError::TimingCacheUnfit { path: cache.path.clone(), reason }
}

fn io_error(cache: &TimingCache, action: &'static str, error: &std::io::Error) -> TensorRtError {
    TensorRtError::TimingCache { path: cache.path.clone(), action, reason: error.to_string() }
}
