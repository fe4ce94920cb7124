//! Names for addresses: functions and lines for code, symbols for data.

use std::{
    collections::HashMap,
    os::fd::AsRawFd as _,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use blazesym::symbolize::{
    CodeInfo, Input, Sym, Symbolized, Symbolizer,
    source::{Elf, Source},
};

use super::{Frame, Mapping, Mappings, Place, file::Image, jit::Jit};

/// Named addresses that are remembered; all are forgotten when there are more.
const LIMIT_CACHED: usize = 65_536;

/// Finds names; each file's tables are read when the first name in it is asked for.
#[derive(Default)]
pub struct Names {
    symbolizer: Option<Symbolizer>,
    /// By number of the image and stated address, as looked up.
    frames: HashMap<(u32, u64), Arc<[Frame]>>,
    data: HashMap<(u32, u64), Option<Symbol>>,
    jits: HashMap<i32, Jit>,
    /// Images whose symbols cannot be read, and why.
    unusable: HashMap<u32, Arc<str>>,
}

/// A symbol and how far into it an address lies.
#[derive(Debug, Clone)]
struct Symbol {
    name: String,
    offset: u64,
}

impl Names {
    /// A namer that has read nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The functions active at an address of code, innermost first: more than one where functions were
    /// inlined and debug information tells. A return address is looked up by the call before it.
    pub fn frame(
        &mut self,
        mappings: &mut Mappings,
        pid: i32,
        time_ns: u64,
        address: u64,
        is_return_address: bool,
    ) -> Arc<[Frame]> {
        let back = u64::from(is_return_address);
        let asked = address.saturating_sub(back);
        let Some(mapping) = mappings.find(pid, time_ns, asked) else {
            let (module, reason) =
                ("[unknown]".to_owned(), Some("nothing is known to be mapped there".into()));
            return Arc::new([Frame { function: None, module, offset: address, source: None, reason }]);
        };
        let stated = mappings.image(pid, &mapping).and_then(|image| {
            let stated = image.layout()?.stated_address(&mapping, asked);
            Ok((image, stated.ok_or("the file has no code there")?))
        });
        match stated {
            Ok((image, stated)) => self.in_image(&image, &mapping, stated, back),
            Err(reason) => self.made_at_run_time(pid, &mapping, asked, back, reason),
        }
    }

    /// What lies at an address of data.
    pub fn data(&mut self, mappings: &mut Mappings, pid: i32, time_ns: u64, address: u64) -> Place {
        let Some(mapping) = mappings.find(pid, time_ns, address) else { return Place::Unknown { address } };
        let origin = &mapping.origin;
        if mapping.shared && origin.is_file() {
            let (path, file_offset) = (origin.path.clone(), mapping.offset_of(address));
            return Place::Shared { path, device: origin.device, inode: origin.inode, file_offset };
        }
        // Variables that start as zero lie behind the file, in memory that has no name.
        let file =
            if origin.is_file() { Some(mapping.clone()) } else { mappings.file_below(pid, time_ns, address) };
        if let Some(file) = file
            && let Ok(image) = mappings.image(pid, &file)
            && let Ok(layout) = image.layout()
            && let Some(stated) = layout.stated_address(&file, address)
        {
            let module = file.origin.name();
            return match self.symbol(&image, stated) {
                Some(Symbol { name, offset }) => {
                    Place::Global { symbol: name, offset, module, module_offset: stated }
                }
                None => Place::Mapped { name: module, offset: stated },
            };
        }
        let from = if origin.is_file() { mapping.offset_of(address) } else { address - mapping.start };
        Place::Mapped { name: origin.name(), offset: from }
    }

    fn in_image(&mut self, image: &Arc<Image>, mapping: &Mapping, stated: u64, back: u64) -> Arc<[Frame]> {
        let key = (image.number, stated);
        if let Some(frames) = self.frames.get(&key) {
            return Arc::clone(frames);
        }
        let (module, offset) = (mapping.origin.name(), stated.saturating_add(back));
        let frame = |function, source, reason| {
            let module = module.clone();
            Frame { function, module, offset, source, reason }
        };
        let asked = self.look_up(image, stated, true, |symbol| (symbol.offset as u64, calls(&symbol)));
        let frames: Arc<[Frame]> = match asked {
            Ok((distance, mut calls)) => {
                if let Some((Some(name), _)) = calls.last_mut()
                    && let Some(symbol) = self.symbol(image, stated)
                    && symbol.offset == distance
                    && is_better(&symbol.name, name)
                {
                    *name = symbol.name;
                }
                calls.into_iter().map(|(name, source)| frame(name, source, None)).collect()
            }
            Err(reason) => Arc::new([frame(None, None, Some(reason))]),
        };
        if self.frames.len() >= LIMIT_CACHED {
            self.frames.clear();
        }
        self.frames.insert(key, Arc::clone(&frames));
        frames
    }

    fn made_at_run_time(
        &mut self,
        pid: i32,
        mapping: &Mapping,
        asked: u64,
        back: u64,
        reason: Arc<str>,
    ) -> Arc<[Frame]> {
        let offset = mapping.offset_of(asked).saturating_add(back);
        let mut frame = Frame {
            function: None,
            module: mapping.origin.name(),
            offset,
            source: None,
            reason: Some(reason),
        };
        if mapping.protection.executable()
            && let Some((name, _)) = self.jits.entry(pid).or_default().find(pid, asked)
        {
            frame = Frame { function: Some(name.to_owned()), reason: None, ..frame };
        }
        Arc::new([frame])
    }

    fn symbol(&mut self, image: &Arc<Image>, stated: u64) -> Option<Symbol> {
        let key = (image.number, stated);
        if let Some(symbol) = self.data.get(&key) {
            return symbol.clone();
        }
        let named = |symbol: Sym<'_>| Symbol { name: demangled(&symbol.name), offset: symbol.offset as u64 };
        let symbol = self.look_up(image, stated, false, named).ok();
        if self.data.len() >= LIMIT_CACHED {
            self.data.clear();
        }
        self.data.insert(key, symbol.clone());
        symbol
    }

    /// Asks the symbol library for what lies at an address of a file.
    fn look_up<T>(
        &mut self,
        image: &Image,
        stated: u64,
        debug_information: bool,
        make: impl Fn(Sym<'_>) -> T,
    ) -> Result<T, Arc<str>> {
        if let Some(reason) = self.unusable.get(&image.number) {
            return Err(Arc::clone(reason));
        }
        let Some(file) = &image.file else { return Err("it has no symbols".into()) };
        if let Some(reason) = image.layout()?.hostile {
            return Err(reason.into());
        }
        // The file may have lost its name; the library takes names only.
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let symbolizer = self.symbolizer.get_or_insert_with(symbolizer);
        let ask = |debug_information| {
            let mut source = Elf::new(&path);
            source.debug_syms = debug_information;
            let source = Source::Elf(source);
            let input = Input::VirtOffset(stated);
            // The files are foreign; a fault that they find in a library must cost their names only.
            let run = AssertUnwindSafe(|| match symbolizer.symbolize_single(&source, input) {
                Ok(Symbolized::Sym(symbol)) if is_within(&symbol) => Some(Ok(make(symbol))),
                Ok(_) => Some(Err(Arc::from("no symbol covers it"))),
                Err(_) => None,
            });
            catch_unwind(run)
        };
        // Debug information that cannot be read leaves the symbol table.
        let answer = match ask(debug_information) {
            Ok(None) if debug_information => ask(false),
            answer => answer,
        };
        match answer {
            Ok(Some(answer)) => answer,
            Ok(None) | Err(_) => {
                if answer.is_err() {
                    self.symbolizer = None;
                }
                let reason: Arc<str> = "its symbols cannot be read".into();
                self.unusable.insert(image.number, Arc::clone(&reason));
                Err(reason)
            }
        }
    }
}

fn symbolizer() -> Symbolizer {
    Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_code_info(true)
        .enable_inlined_fns(true)
        // It takes every name for one of C++: a variable `c` would come out as `char`.
        .enable_demangling(false)
        .build()
}

/// A name as its language has it; one that is not mangled stays as it is.
fn demangled(name: &str) -> String {
    if !name.starts_with("_Z") && !name.starts_with("_R") {
        return name.to_owned();
    }
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let of_cpp = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok());
    of_cpp.unwrap_or_else(|| name.to_owned())
}

/// A symbol without a size claims all that follows: better no name than a wrong one.
fn is_within(symbol: &Sym<'_>) -> bool {
    !symbol.name.is_empty() && symbol.size.is_some_and(|size| symbol.offset < size)
}

/// Whether the name in the symbol table says more than that in the debug information, which may be the C
/// library's own (`___pthread_mutex_lock`) or lack the module (Rust with line tables only).
fn is_better(symbol: &str, debug: &str) -> bool {
    (debug.starts_with("__") && debug.ends_with(symbol)) || (symbol.contains("::") && !debug.contains("::"))
}

/// Names and lines, innermost first.
fn calls(symbol: &Sym<'_>) -> Vec<(Option<String>, Option<String>)> {
    let inlined = symbol.inlined.iter().rev();
    let mut calls: Vec<_> =
        inlined.map(|call| (Some(demangled(&call.name)), call.code_info.as_ref().map(line))).collect();
    calls.push((Some(demangled(&symbol.name)), symbol.code_info.as_deref().map(line)));
    calls
}

fn line(info: &CodeInfo<'_>) -> String {
    let path = info.to_path();
    info.line.map_or_else(|| path.display().to_string(), |line| format!("{}:{line}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_that_says_more_is_taken() {
        assert!(is_better("pthread_mutex_lock", "___pthread_mutex_lock"));
        assert!(is_better("server::queue::push", "push"));
        assert!(!is_better("push", "server::queue::push"));
        assert!(!is_better("inner_wait", "inner_wait"));
        assert!(!is_better("__lll_lock_wait", "__GI___other"));
    }

    #[test]
    fn only_mangled_names_are_demangled() {
        for (name, expected) in [
            ("c", "c"),
            ("t", "t"),
            ("main", "main"),
            ("_ZN6server4pushEi", "server::push(int)"),
            ("_ZN3std6thread4park17h0123456789abcdefE", "std::thread::park"),
            ("_Z", "_Z"),
            ("_R", "_R"),
        ] {
            assert_eq!(demangled(name), expected);
        }
    }

    #[test]
    fn an_address_that_nothing_is_known_of_stays_a_number() {
        let (mut names, mut mappings) = (Names::new(), Mappings::from_proc_only());
        let frames = names.frame(&mut mappings, i32::MAX, 0, 0x1234, true);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].to_string(), "[unknown]+0x1234");
        assert_eq!(names.data(&mut mappings, -1, 0, 0), Place::Unknown { address: 0 });
    }
}
