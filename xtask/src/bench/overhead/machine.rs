//! The machine that the figures hold for.

use std::fs;

use anyhow::Result;
use serde::Serialize;

/// What the cost of looking depends on.
#[derive(Debug, Serialize)]
pub(super) struct Machine {
    kernel: String,
    cpu: String,
    cpus: usize,
    page_table_isolation: String,
    load_average: String,
    bare_getppid_ns: f64,
}

impl Machine {
    /// Reads what the kernel tells; the cost of a bare system call was measured by the caller.
    pub(super) fn read(bare_getppid_ns: f64) -> Result<Self> {
        Ok(Self {
            kernel: file("/proc/sys/kernel/osrelease"),
            cpu: cpu_model(&file("/proc/cpuinfo")),
            cpus: std::thread::available_parallelism()?.get(),
            page_table_isolation: isolation(&file("/sys/devices/system/cpu/vulnerabilities/meltdown")),
            load_average: file("/proc/loadavg").split(' ').take(3).collect::<Vec<_>>().join(" "),
            bare_getppid_ns,
        })
    }

    /// For people.
    pub(super) fn print(&self) {
        println!("kernel {}, {} CPUs: {}", self.kernel, self.cpus, self.cpu);
        println!(
            "page-table isolation {}; a bare getppid costs {:.0} ns; load at the start {}",
            self.page_table_isolation, self.bare_getppid_ns, self.load_average
        );
    }
}

fn file(path: &str) -> String {
    fs::read_to_string(path)
        .map_or_else(|error| format!("n/a ({path}: {error})"), |text| text.trim().to_owned())
}

fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or("n/a (no model name in /proc/cpuinfo)".to_owned(), |(_, model)| model.trim().to_owned())
}

/// The kernel tells it as its answer to Meltdown.
fn isolation(meltdown: &str) -> String {
    match meltdown {
        "Mitigation: PTI" => "on".to_owned(),
        "Not affected" | "Vulnerable" => format!("off ({})", meltdown.to_lowercase()),
        other => format!("n/a ({other})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn isolation_is_on_off_or_unknown() {
        assert_eq!(isolation("Mitigation: PTI"), "on");
        assert_eq!(isolation("Not affected"), "off (not affected)");
        assert_eq!(isolation("Unknown"), "n/a (Unknown)");
    }

    #[test]
    fn the_model_is_that_of_the_first_cpu() {
        assert_eq!(
            cpu_model("processor\t: 0\nmodel name\t: Fast CPU @ 3 GHz\nmodel name\t: x\n"),
            "Fast CPU @ 3 GHz"
        );
        assert!(cpu_model("").starts_with("n/a"));
    }
}
