//! What is to be executed, made ready before fork so that nothing is left to allocate after it: the places
//! where the command may be found, its arguments and its environment.

use std::{
    ffi::{CStr, CString, NulError, OsStr, OsString, c_char},
    os::unix::ffi::{OsStrExt as _, OsStringExt as _},
    ptr,
};

use super::identity::error_number;

/// Where a shell looks when there is no `PATH` (glibc's `confstr(_CS_PATH)`).
const USUAL_PATH: &[u8] = b"/bin:/usr/bin";
/// Runs a script that does not say what runs it (POSIX, `execvp`).
const SHELL: &CStr = c"/bin/sh";

pub(super) struct Image {
    candidates: Vec<CString>,
    /// These end with a null pointer, and point into `texts`.
    arguments: Vec<*const c_char>,
    script_arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    /// What the pointers point to.
    _texts: Vec<CString>,
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// concprobe's own environment, entry by entry as it is, whatever is in there.
pub(super) fn inherited_environment() -> Vec<OsString> {
    let mut entries = Vec::new();
    // SAFETY: nothing in concprobe changes its environment, which is an array of texts that a null pointer
    // ends.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(OsString::from_vec(CStr::from_ptr(*entry).to_bytes().to_vec()));
            entry = entry.add(1);
        }
    }
    entries
}

impl Image {
    /// # Errors
    /// When a text has a zero byte in it.
    pub fn prepare(
        command: &OsStr,
        arguments: &[OsString],
        environment: &[OsString],
    ) -> Result<Self, NulError> {
        let candidates = candidates(command.as_bytes(), search_path(environment));
        let candidates = candidates.into_iter().map(CString::new).collect::<Result<Vec<_>, _>>()?;
        let mut texts = Vec::new();
        let mut pointers = |all: &mut dyn Iterator<Item = &OsStr>| {
            let mut pointers = Vec::new();
            for one in all {
                let text = CString::new(one.as_bytes())?;
                pointers.push(text.as_ptr());
                texts.push(text);
            }
            pointers.push(ptr::null());
            Ok::<_, NulError>(pointers)
        };
        let arguments = arguments.iter().map(OsString::as_os_str);
        let argument_pointers = pointers(&mut std::iter::once(command).chain(arguments))?;
        let environment = pointers(&mut environment.iter().map(OsString::as_os_str))?;
        let mut script_arguments = vec![SHELL.as_ptr()];
        script_arguments.extend(&argument_pointers);
        Ok(Self { candidates, arguments: argument_pointers, script_arguments, environment, _texts: texts })
    }

    /// Becomes the command, or says why not (`errno`). As `execvp` does, but with the environment's own
    /// `PATH`. Between fork and exec.
    pub fn execute(&mut self) -> i32 {
        let (mut denied, mut error) = (false, libc::ENOENT);
        for candidate in &self.candidates {
            // SAFETY: the arrays end with null pointers, and point to texts that live as long as they.
            unsafe { libc::execve(candidate.as_ptr(), self.arguments.as_ptr(), self.environment.as_ptr()) };
            error = error_number();
            if error == libc::ENOEXEC
                && let Some(place) = self.script_arguments.get_mut(1)
            {
                *place = candidate.as_ptr();
                // SAFETY: as above.
                unsafe {
                    libc::execve(SHELL.as_ptr(), self.script_arguments.as_ptr(), self.environment.as_ptr())
                };
            }
            match error {
                libc::EACCES => denied = true,
                libc::ENOENT | libc::ENOTDIR | libc::ESTALE | libc::ENODEV | libc::ETIMEDOUT => {}
                _ => return error,
            }
        }
        if denied { libc::EACCES } else { error }
    }
}

fn search_path(environment: &[OsString]) -> &[u8] {
    environment.iter().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH=")).unwrap_or(USUAL_PATH)
}

/// Where the command may be, in the order to try; an empty part of the path is the current folder.
fn candidates(command: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if command.is_empty() {
        return Vec::new();
    }
    if command.contains(&b'/') {
        return vec![command.to_vec()];
    }
    path.split(|byte| *byte == b':')
        .map(|folder| {
            let mut candidate = folder.to_vec();
            if !folder.is_empty() {
                candidate.push(b'/');
            }
            candidate.extend(command);
            candidate
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(command: &str, path: &str) -> Vec<String> {
        let candidates = candidates(command.as_bytes(), path.as_bytes());
        candidates.into_iter().map(|it| String::from_utf8(it).unwrap()).collect()
    }

    #[test]
    fn a_command_is_looked_for_along_the_path_unless_it_has_a_slash() {
        assert_eq!(texts("ls", "/a:/b"), ["/a/ls", "/b/ls"]);
        assert_eq!(texts("ls", ":/b:"), ["ls", "/b/ls", "ls"]);
        assert_eq!(texts("ls", ""), ["ls"]);
        assert_eq!(texts("./ls", "/a"), ["./ls"]);
        assert_eq!(texts("a/ls", "/a"), ["a/ls"]);
        assert!(texts("", "/a:/b").is_empty());
    }

    #[test]
    fn without_a_path_the_usual_places_are_searched() {
        assert_eq!(search_path(&["XPATH=/x".into(), "PATH=/a".into(), "PATH=/b".into()]), b"/a");
        assert_eq!(search_path(&["PATH".into()]), USUAL_PATH);
        assert_eq!(search_path(&["PATH=".into()]), b"");
    }

    #[test]
    fn a_zero_byte_is_refused_wherever_it_is() {
        let zero = || OsString::from("a\0b");
        assert!(Image::prepare(&zero(), &[], &[]).is_err());
        assert!(Image::prepare(OsStr::new("x"), &[zero()], &[]).is_err());
        assert!(Image::prepare(OsStr::new("x"), &[], &[zero()]).is_err());
    }
}
