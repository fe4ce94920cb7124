//! Goes from a captured stack pointer up through the frames, by the unwind information that compilers
//! write for exceptions. Without it, as in code made at run time, by frame pointers.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use framehop::{
    CacheNative, Error, FrameAddress, MayAllocateDuringUnwind, UnwindRegsNative, Unwinder as _,
    UnwinderNative,
};

use super::{Capture, End, Mapping, Mappings, Trace, elf::Section, registers::ADDRESS_BITS};

type Native = UnwinderNative<Section, MayAllocateDuringUnwind>;

/// More frames than fit into the part of a stack that is copied.
const LIMIT_FRAMES: usize = 1024;

/// Unwinds captures. Each file's rules are found once, at the addresses that the file states, and hold for
/// every process that maps it.
pub struct Unwinder {
    /// By number of the image; `None` for files without unwind information.
    files: HashMap<u32, Option<Native>>,
    without: Native,
    cache: CacheNative<MayAllocateDuringUnwind>,
    /// The image whose rules are being evaluated.
    evaluated: Option<u32>,
}

impl Default for Unwinder {
    fn default() -> Self {
        Self::new()
    }
}

/// What is known about the code at an address.
struct Code {
    mapping: Mapping,
    /// The image's number and the address that the file states.
    stated: Result<(u32, u64), String>,
}

impl Unwinder {
    /// An unwinder that knows no file yet.
    #[must_use]
    pub fn new() -> Self {
        let (files, without, cache) = (HashMap::new(), Native::new(), CacheNative::new());
        Self { files, without, cache, evaluated: None }
    }

    /// The addresses of the calls that led to the capture.
    pub fn unwind(&mut self, mappings: &mut Mappings, capture: &Capture<'_>) -> Trace {
        let mut addresses = Vec::with_capacity(32);
        addresses.push(capture.registers.ip);
        // The bytes and the files are foreign; a fault that they find in a library must cost one trace.
        let run = AssertUnwindSafe(|| self.follow(mappings, capture, &mut addresses));
        let end = catch_unwind(run).unwrap_or_else(|_| {
            if let Some(image) = self.evaluated {
                self.files.insert(image, None);
            }
            self.cache = CacheNative::new();
            End::Broken { reason: "the unwind information could not be evaluated".to_owned() }
        });
        Trace { addresses, end }
    }

    fn follow(&mut self, mappings: &mut Mappings, capture: &Capture<'_>, addresses: &mut Vec<u64>) -> End {
        let mut registers = capture.registers.native();
        let mut frame = FrameAddress::from_instruction_pointer(capture.registers.ip);
        // The code that was left by frame pointers, without other information.
        let mut guessed: Option<Code> = None;
        loop {
            let Some(code) = self.code(mappings, capture, frame) else {
                if frame.is_return_address() {
                    addresses.pop();
                }
                let address = frame.address();
                return guessed.map_or(End::MappingUnknown { address }, Code::lost);
            };
            let (step, informed) = self.step(&code, frame, &mut registers, capture);
            match step {
                Ok(next) => match next.map(|next| next & ADDRESS_BITS).and_then(as_return) {
                    Some(next) => frame = next,
                    // Frame pointers end with one that is 0, which says something if there was one before.
                    None if informed || guessed.is_some() => return End::Complete,
                    None => return code.lost(),
                },
                Err(Error::CouldNotReadStack(address)) if capture.is_cut_off(address) => {
                    return End::Truncated;
                }
                Err(_) if !informed => return code.lost(),
                Err(error) => return End::Broken { reason: error.to_string().to_lowercase() },
            }
            if addresses.len() >= LIMIT_FRAMES {
                return End::TooDeep;
            }
            addresses.push(frame.address());
            guessed = (!informed).then_some(code);
        }
    }

    /// The code that a frame is in; `None` if nothing is known to be there.
    fn code(&mut self, mappings: &mut Mappings, capture: &Capture<'_>, frame: FrameAddress) -> Option<Code> {
        let address = frame.address_for_lookup();
        let mapping = mappings.find(capture.pid, capture.time_ns, address)?;
        if !mapping.protection.executable() {
            return None;
        }
        if !mapping.origin.is_file() && mapping.origin.path.to_str() != Some("[vdso]") {
            return Some(Code { mapping, stated: Err("it was made at run time".to_owned()) });
        }
        let stated = mappings.image(capture.pid, &mapping).and_then(|image| {
            let layout = image.layout()?;
            let stated = layout.stated_address(&mapping, address).ok_or("the file has no code there")?;
            self.files.entry(image.number).or_insert_with(|| {
                layout.can_unwind().then(|| {
                    let mut native = Native::new();
                    native.add_module(layout.module(&image));
                    native
                })
            });
            Ok((image.number, stated))
        });
        Some(Code { mapping, stated: stated.map_err(|reason| reason.to_string()) })
    }

    /// The return address, and whether it was found by more than frame pointers.
    fn step(
        &mut self,
        code: &Code,
        frame: FrameAddress,
        registers: &mut UnwindRegsNative,
        capture: &Capture<'_>,
    ) -> (Result<Option<u64>, Error>, bool) {
        let mut read = |address| capture.word(address).ok_or(());
        if let Ok((image, stated)) = code.stated
            && let Some(Some(native)) = self.files.get(&image)
        {
            // A return address is looked up by the byte before it.
            let stated = if frame.is_return_address() {
                stated.checked_add(1).and_then(FrameAddress::from_return_address)
            } else {
                Some(FrameAddress::from_instruction_pointer(stated))
            };
            if let Some(stated) = stated {
                self.evaluated = Some(image);
                return (native.unwind_frame(stated, registers, &mut self.cache, &mut read), true);
            }
        }
        (self.without.unwind_frame(frame, registers, &mut self.cache, &mut read), false)
    }
}

impl Code {
    fn lost(self) -> End {
        let reason = self.stated.err().unwrap_or_else(|| "the file has no unwind information".to_owned());
        End::NoUnwindInfo { mapping: self.mapping.origin.name(), reason }
    }
}

fn as_return(address: u64) -> Option<FrameAddress> {
    FrameAddress::from_return_address(address)
}
