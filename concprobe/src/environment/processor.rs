//! Processor name, frequency governor, and the state of the processor's vulnerabilities.

use std::collections::BTreeMap;

use super::{Environment, file};

pub(super) fn fill(environment: &mut Environment) {
    let model =
        cpuinfo().and_then(|text| model(&text).ok_or_else(|| "/proc/cpuinfo names no processor".to_owned()));
    environment.cpu_model = environment.take("cpu_model", model);
    let cpu = environment.cpus_usable.first().copied().unwrap_or(0);
    environment.governor = environment.take("governor", governor(cpu));
    environment.mitigations = environment.take("mitigations", mitigations()).unwrap_or_default();
}

/// The first CPUs of `/proc/cpuinfo`; all of it is long on a large machine.
pub(super) fn cpuinfo() -> Result<String, String> {
    file::beginning("/proc/cpuinfo", 8192)
}

/// The processor's name under the keys that the ports of Linux use.
fn model(cpuinfo: &str) -> Option<String> {
    let named = ["model name", "cpu model", "cpu", "processor 0", "uarch", "Hardware"]
        .iter()
        .find_map(|key| file::field(cpuinfo, key).filter(|name| !name.is_empty()));
    if let Some(name) = named {
        return Some(name.to_owned());
    }
    // arm64 prints numbers, which `lscpu` translates with a table.
    let implementer = file::field(cpuinfo, "CPU implementer")?;
    Some(format!("implementer {implementer}, part {}", file::field(cpuinfo, "CPU part")?))
}

fn governor(cpu: usize) -> Result<String, String> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    file::text(path).map_err(|reason| format!("{reason}; the firmware or the host sets the frequency"))
}

fn mitigations() -> Result<BTreeMap<String, String>, String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let entries = std::fs::read_dir(directory).map_err(|error| format!("{directory}: {error}"))?;
    Ok(entries
        .flatten()
        .filter_map(|entry| Some((entry.file_name().into_string().ok()?, file::text(entry.path()).ok()?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_on_each_port() {
        let x86 = "processor\t: 0\nmodel\t\t: 79\nmodel name\t: Intel(R) Xeon(R) CPU @ 2.20GHz\n";
        assert_eq!(model(x86).as_deref(), Some("Intel(R) Xeon(R) CPU @ 2.20GHz"));
        assert_eq!(
            model("processor\t: 0\ncpu\t\t: POWER9, altivec supported\n").as_deref(),
            Some("POWER9, altivec supported")
        );
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(model(arm).as_deref(), Some("implementer 0x41, part 0xd0c"));
    }

    #[test]
    fn a_text_without_a_name_gives_none() {
        assert_eq!(model(""), None);
        assert_eq!(model("processor\t: 0\nmodel name\t:\n"), None);
        assert_eq!(model("CPU implementer: 0x41"), None);
    }

    #[test]
    fn a_governor_that_cannot_be_read_names_its_file() {
        assert!(governor(super::super::HIGHEST_CPU).unwrap_err().contains("cpu8191/cpufreq"));
    }
}
