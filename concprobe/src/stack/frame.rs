//! One function of a trace, with a name or with the place that a name could be found for.

use std::{fmt, sync::Arc};

/// A function that was active; of functions that were inlined into each other, one of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The demangled name, where there is one.
    pub function: Option<String>,
    /// The name of the file that the code lies in, or of the memory.
    pub module: String,
    /// The address as the file counts, which is what `addr2line` takes; in memory, the distance from the
    /// start of the mapping.
    pub offset: u64,
    /// Source file and line, where there is debug information.
    pub source: Option<String>,
    /// Why there is no name, where a cause is known.
    pub reason: Option<Arc<str>>,
}

impl fmt::Display for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.function {
            Some(function) => write!(formatter, "{function} ({})", self.module)?,
            None => write!(formatter, "{}+{:#x}", self.module, self.offset)?,
        }
        self.source.as_ref().map_or(Ok(()), |source| write!(formatter, " at {source}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_without_a_name_says_where_it_is() {
        let module = "libc.so.6".to_owned();
        let mut frame = Frame { function: None, module, offset: 0x1234, source: None, reason: None };
        assert_eq!(frame.to_string(), "libc.so.6+0x1234");
        frame.function = Some("read".to_owned());
        assert_eq!(frame.to_string(), "read (libc.so.6)");
        frame.source = Some("io/read.c:7".to_owned());
        assert_eq!(frame.to_string(), "read (libc.so.6) at io/read.c:7");
    }
}
