//! Which kernel and C library run here, how the kernel preempts, and which clock it reads.

use std::ffi::CStr;

use super::{Environment, file};

pub(super) fn fill(environment: &mut Environment) {
    match names() {
        Ok([release, version, machine]) => {
            let model = preemption_model(&release, &version);
            environment.preemption_model = environment.take("preemption_model", model);
            environment.kernel_release = Some(release);
            environment.kernel_version = Some(version);
            environment.architecture = Some(machine);
        }
        Err(reason) => {
            environment
                .lack(&["kernel_release", "kernel_version", "architecture", "preemption_model"], &reason);
        }
    }
    environment.libc_version = environment.take("libc_version", libc_version());
    let clock = file::text("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    environment.clock_source = environment.take("clock_source", clock);
    let memory = file::text("/proc/meminfo")
        .and_then(|text| memory_total_bytes(&text).ok_or_else(|| "/proc/meminfo has no MemTotal".to_owned()));
    environment.memory_total_bytes = environment.take("memory_total_bytes", memory);
}

/// Release, version and machine of `uname(2)`.
fn names() -> Result<[String; 3], String> {
    let mut names = std::mem::MaybeUninit::<libc::utsname>::zeroed();
    // SAFETY: the pointer is to writable memory of the size of the structure that uname fills.
    if unsafe { libc::uname(names.as_mut_ptr()) } != 0 {
        return Err(format!("uname: {}", std::io::Error::last_os_error()));
    }
    // SAFETY: all-zero bytes are a valid `utsname`, and uname has filled it.
    let names = unsafe { names.assume_init() };
    Ok([&names.release, &names.version, &names.machine].map(|name| {
        // SAFETY: the kernel ends each name with a zero byte, and the array outlives the borrow.
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    }))
}

#[cfg(target_env = "gnu")]
fn libc_version() -> Result<String, String> {
    // SAFETY: glibc returns a pointer to a static string that ends with a zero byte.
    let version = unsafe { CStr::from_ptr(libc::gnu_get_libc_version()) };
    Ok(format!("glibc {}", version.to_string_lossy()))
}

#[cfg(not(target_env = "gnu"))]
fn libc_version() -> Result<String, String> {
    Err("only glibc tells its version".to_owned())
}

fn memory_total_bytes(meminfo: &str) -> Option<u64> {
    let kibibytes: u64 = file::field(meminfo, "MemTotal")?.strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

/// Whether BPF maps count against `RLIMIT_MEMLOCK`, as before Linux 5.11 (kernel commit 97306be45fbe); no
/// feature of the kernel tells.
pub(crate) fn counts_maps_as_locked(environment: &Environment) -> bool {
    let release = environment.kernel_release.as_deref().and_then(release_numbers);
    release.is_some_and(|release| release < (5, 11))
}

/// Major and minor number of a kernel release, `(6, 18)` for `6.18.44-generic`.
fn release_numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|byte: char| !byte.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn preemption_model(release: &str, version: &str) -> Result<String, String> {
    if version.contains("PREEMPT_RT") {
        return Ok("rt".to_owned());
    }
    let switch = file::text("/sys/kernel/debug/sched/preempt");
    if let Some(model) = switch.as_deref().ok().and_then(file::chosen) {
        return Ok(model.to_owned());
    }
    let command_line = file::text("/proc/cmdline").unwrap_or_default();
    if let Some(model) = parameter(&command_line, "preempt") {
        return Ok(model.to_owned());
    }
    if let Some(model) = fixed_model(version) {
        return Ok(model.to_owned());
    }
    let config = file::text(format!("/boot/config-{release}")).unwrap_or_default();
    configured_model(&config).map(str::to_owned).ok_or_else(|| {
        let reason = switch.err().unwrap_or_else(|| "debugfs shows no choice".to_owned());
        format!("the kernel does not tell its default ({reason})")
    })
}

/// Value of the last `name=value` on the kernel's command line.
fn parameter<'a>(command_line: &'a str, name: &str) -> Option<&'a str> {
    let values = command_line.split_whitespace().filter_map(|word| word.split_once('='));
    values.filter(|(key, _)| *key == name).map(|(_, value)| value).next_back()
}

/// The model when it is built in: the build string then says `PREEMPT` or `PREEMPT_LAZY`.
fn fixed_model(version: &str) -> Option<&'static str> {
    version.split_whitespace().find_map(|word| match word {
        "PREEMPT" => Some("full"),
        "PREEMPT_LAZY" => Some("lazy"),
        _ => None,
    })
}

fn configured_model(config: &str) -> Option<&'static str> {
    let models = [
        ("CONFIG_PREEMPT_NONE=y", "none"),
        ("CONFIG_PREEMPT_VOLUNTARY=y", "voluntary"),
        ("CONFIG_PREEMPT_LAZY=y", "lazy"),
        ("CONFIG_PREEMPT=y", "full"),
    ];
    models.into_iter().find(|(option, _)| config.lines().any(|line| line == *option)).map(|(_, model)| model)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_gives_its_first_two_numbers() {
        assert_eq!(release_numbers("6.18.44-generic"), Some((6, 18)));
        assert_eq!(release_numbers("5.4"), Some((5, 4)));
        assert_eq!(release_numbers("4.18.0-553.el8"), Some((4, 18)));
        assert_eq!(release_numbers("6"), None);
        assert_eq!(release_numbers("next-6.1"), None);
    }

    #[test]
    fn only_a_built_in_preemption_model_is_read_from_the_build_string() {
        assert_eq!(fixed_model("#1 SMP PREEMPT Tue"), Some("full"));
        assert_eq!(fixed_model("#1 SMP PREEMPT_DYNAMIC Tue"), None);
        assert_eq!(fixed_model("#1 SMP Tue"), None);
    }

    #[test]
    fn the_last_boot_parameter_counts() {
        assert_eq!(parameter("quiet preempt=none preempt=full", "preempt"), Some("full"));
        assert_eq!(parameter("quiet nopreempt=none", "preempt"), None);
    }

    #[test]
    fn the_configuration_names_the_default() {
        let config = "# CONFIG_PREEMPT_NONE is not set\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_PREEMPT_DYNAMIC=y";
        assert_eq!(configured_model(config), Some("voluntary"));
        assert_eq!(configured_model(""), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(memory_total_bytes("MemTotal:       2048 kB\nMemFree: 1 kB"), Some(2 << 20));
        assert_eq!(memory_total_bytes("MemTotal: 18446744073709551615 kB"), None);
        assert_eq!(memory_total_bytes("MemFree: 1 kB"), None);
    }
}
