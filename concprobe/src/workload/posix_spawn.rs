//! Programs that do nothing: what starting one costs, when the address space need not be copied first.

use std::{
    env,
    ffi::{CStr, CString},
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    ptr,
};

use anyhow::{Context as _, Result};

use super::processes::Processes;
use crate::harness::{Claim, CrewSize, Entry, Settings, Workload};

pub(super) static ENTRY: Entry = Entry {
    name: "posix-spawn",
    summary: "the price of a program that does nothing: vfork, exec, loading, exit and wait",
    op: "one posix_spawn of `true`, and waitpid",
    claim: Claim::OneProcessPerOp,
    default_ops: 200,
    crew: CrewSize::Threads(1),
    parameters: &[],
    unavailable: None,
    build,
};

fn build(settings: &Settings) -> Result<Box<dyn Workload>> {
    let program = CString::new(find_true()?.as_os_str().as_bytes())?;
    Ok(Box::new(Processes::new(settings.threads, move || spawn(&program))))
}

/// The program `true`: where most systems have it, or where the search path leads.
fn find_true() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    [PathBuf::from("/bin"), PathBuf::from("/usr/bin")]
        .into_iter()
        .chain(env::split_paths(&path))
        .map(|folder| folder.join("true"))
        .find(|candidate| candidate.is_absolute() && executable(candidate))
        .context("cannot find the program `true` in /bin, /usr/bin or PATH, which posix-spawn starts")
}

fn executable(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: the path is a C string.
    unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
}

fn spawn(program: &CStr) -> Result<libc::pid_t> {
    let arguments = [program.as_ptr().cast_mut(), ptr::null_mut()];
    let environment = [ptr::null_mut()];
    let mut child = 0;
    // SAFETY: both lists end with a null pointer, and their strings are read only.
    let error = unsafe {
        libc::posix_spawn(
            &raw mut child,
            program.as_ptr(),
            ptr::null(),
            ptr::null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error))
            .with_context(|| format!("cannot start {}", program.to_string_lossy()));
    }
    Ok(child)
}
