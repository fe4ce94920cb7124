//! The tools that are compared: one row each, with its command line and the reader of its answer.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::answer::Answer;
use super::reading;
use crate::command::{is_executable, which};

/// Everything that a run under a tool left behind.
pub(super) struct Output<'a> {
    /// The name of the program's processes.
    pub(super) program: &'a str,
    /// The id of its first process, unless the tool started it.
    pub(super) pid: Option<u32>,
    /// What the tool printed, and with a tool around it the program.
    pub(super) printed: String,
    pub(super) complaints: String,
    /// Where FILE of the command line lies.
    pub(super) file: &'a Path,
}

/// How a tool and the program come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// There is no tool.
    Alone,
    /// The tool starts the program: its arguments follow the tool's.
    Around,
    /// The tool watches the whole system; the program is started when the tool has attached.
    Beside(Attached),
}

/// How a tool that watches the whole system shows that it has attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attached {
    /// It holds so many links of BPF programs.
    Links(usize),
    /// It prints this, after it has attached the rest.
    Says(&'static str),
}

/// One row.
pub(super) struct Tool {
    /// The word on the command line.
    pub(super) name: &'static str,
    /// The program to start; empty for none.
    pub(super) binary: &'static str,
    /// The Debian package that brings it; empty for concprobe.
    package: &'static str,
    pub(super) way: Way,
    /// Its arguments; FILE stands for a file of its own.
    pub(super) arguments: &'static str,
    /// A last argument with spaces: a script.
    pub(super) script: Option<&'static str>,
    /// The program does its ops divided by this, where a tool is so slow that the ratio needs no more.
    pub(super) fewer: u64,
    pub(super) answer: fn(&Output<'_>) -> Result<Answer>,
}

/// What everything is compared with.
pub(super) const UNTRACED: &str = "untraced";

/// Latency of futex calls; the count per name is the sum over the histogram.
const FUTEX_LATENCY: &str = r#"
BEGIN { printf("attached\n"); }
tracepoint:syscalls:sys_enter_futex { @entered[tid] = nsecs; }
tracepoint:syscalls:sys_exit_futex /@entered[tid]/ {
  @futex_ns[comm] = hist(nsecs - @entered[tid]); delete(@entered[tid]);
}
"#;

const OFF_CPU: &str = r#"
BEGIN { printf("attached\n"); }
tracepoint:sched:sched_switch {
  if ((args->prev_state & 0xff) != 0) { @left[args->prev_pid] = nsecs; }
  if (@left[args->next_pid] != 0) {
    @off_cpu_ns[args->next_comm] = hist(nsecs - @left[args->next_pid]); delete(@left[args->next_pid]);
  }
}
"#;

/// Who waits how long in futex calls and off the CPU, and who creates whom: what concprobe's default tells.
const WHOLE_QUESTION: &str = r#"
BEGIN { printf("attached\n"); }
tracepoint:syscalls:sys_enter_futex { @entered[tid] = nsecs; }
tracepoint:syscalls:sys_exit_futex /@entered[tid]/ {
  @futex_ns[comm, tid] = stats(nsecs - @entered[tid]); delete(@entered[tid]);
}
tracepoint:sched:sched_switch {
  if ((args->prev_state & 0xff) != 0) { @left[args->prev_pid] = nsecs; }
  if (@left[args->next_pid] != 0) {
    @off_cpu_ns[args->next_comm, args->next_pid] = stats(nsecs - @left[args->next_pid]);
    delete(@left[args->next_pid]);
  }
}
tracepoint:sched:sched_process_fork { @forks[comm, tid] = count(); }
"#;

const NONE: Tool = Tool {
    name: UNTRACED,
    binary: "",
    package: "",
    way: Way::Alone,
    arguments: "",
    script: None,
    fewer: 1,
    answer: reading::nothing,
};

const fn concprobe(name: &'static str, arguments: &'static str) -> Tool {
    let answer = reading::concprobe::answer;
    Tool { name, binary: "concprobe", way: Way::Around, arguments, answer, ..NONE }
}

const fn perf(
    name: &'static str,
    arguments: &'static str,
    answer: fn(&Output<'_>) -> Result<Answer>,
) -> Tool {
    Tool { name, binary: "perf", package: "linux-perf", way: Way::Around, arguments, answer, ..NONE }
}

const fn bpftrace(
    name: &'static str,
    script: &'static str,
    answer: fn(&Output<'_>) -> Result<Answer>,
) -> Tool {
    Tool {
        name,
        binary: "bpftrace",
        package: "bpftrace",
        way: Way::Beside(Attached::Says("attached\\n")),
        arguments: "-B line -f json -e",
        script: Some(script),
        answer,
        ..NONE
    }
}

const fn libbpf_tool(
    name: &'static str,
    arguments: &'static str,
    links: usize,
    answer: fn(&Output<'_>) -> Result<Answer>,
) -> Tool {
    let way = Way::Beside(Attached::Links(links));
    Tool { name, binary: name, package: "libbpf-tools", way, arguments, answer, ..NONE }
}

/// In the order in which they are shown; the first is what all others are compared with.
pub(super) static TOOLS: [Tool; 16] = [
    NONE,
    // Tells how far two equal runs of one round differ.
    Tool { name: "again", ..NONE },
    concprobe("switches", "trace --depth switches --no-stacks -o FILE --"),
    concprobe("calls", "trace --depth calls --no-stacks -o FILE --"),
    concprobe("stacks", "trace --depth switches --stacks -o FILE --"),
    Tool {
        name: "strace",
        binary: "strace",
        package: "strace",
        way: Way::Around,
        arguments: "-c -f -o FILE",
        fewer: 20,
        answer: reading::strace::answer,
        ..NONE
    },
    Tool { fewer: 20, ..perf("perf-trace", "trace -s -o FILE --", reading::perf::trace) },
    perf(
        "perf-stat",
        "stat -x, -e sched:sched_switch,syscalls:sys_enter_futex -o FILE --",
        reading::perf::stat,
    ),
    perf("perf-sched", "sched record -o FILE --", reading::perf::recorded),
    // Else it writes a gigabyte for nosleep.
    Tool {
        fewer: 4,
        ..perf(
            "perf-record",
            "record -e sched:sched_switch,syscalls:sys_enter_futex,syscalls:sys_exit_futex -o FILE --",
            reading::perf::recorded,
        )
    },
    bpftrace("bpftrace-futex", FUTEX_LATENCY, reading::bpftrace::answer),
    bpftrace("bpftrace-off-cpu", OFF_CPU, reading::bpftrace::answer),
    bpftrace("bpftrace-whole", WHOLE_QUESTION, reading::bpftrace::answer),
    libbpf_tool("syscount", "-L -T 1000", 2, reading::libbpf_tools::syscount),
    libbpf_tool("cpudist", "-O -L", 1, reading::libbpf_tools::cpudist),
    libbpf_tool("offcputime", "", 1, reading::libbpf_tools::offcputime),
];

/// The tool of this name.
pub(super) fn find(name: &str) -> Result<&'static Tool, String> {
    TOOLS.iter().find(|tool| tool.name == name).ok_or_else(|| {
        format!("there is no tool {name}: {}", TOOLS.each_ref().map(|tool| tool.name).join(", "))
    })
}

impl Tool {
    /// Whether it is one of concprobe's depths.
    pub(super) fn is_concprobe(&self) -> bool {
        self.binary == "concprobe"
    }

    /// Whether it is somebody else's.
    pub(super) fn is_peer(&self) -> bool {
        !self.package.is_empty()
    }

    /// The program on this machine, or how to get it. `concprobe` is the one that was built.
    pub(super) fn locate(&self, concprobe: &Path) -> Result<PathBuf, String> {
        if !self.is_peer() {
            return Ok(concprobe.to_path_buf());
        }
        // Not on the PATH of everybody who may run it.
        let aside = Path::new("/usr/sbin").join(self.binary);
        which(self.binary)
            .or_else(|| is_executable(&aside).then_some(aside))
            .ok_or_else(|| format!("not installed: apt-get install {}", self.package))
    }

    /// The arguments, with `file` for FILE.
    pub(super) fn arguments(&self, file: &Path) -> Vec<String> {
        let file = file.display().to_string();
        let words = self.arguments.split_whitespace();
        let words = words.map(|word| if word == "FILE" { file.clone() } else { word.to_owned() });
        words.chain(self.script.map(str::to_owned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_first_tool_is_none_and_names_are_unique() {
        assert_eq!((TOOLS[0].name, TOOLS[0].way), (UNTRACED, Way::Alone));
        assert_eq!(TOOLS.iter().map(|tool| tool.name).collect::<BTreeSet<_>>().len(), TOOLS.len());
        assert!(find("strace").is_ok_and(Tool::is_peer));
        assert!(find("ltrace").is_err_and(|error| error.contains("perf-stat")));
    }

    #[test]
    fn concprobe_is_started_as_the_gates_say() {
        let typed = |name| find(name).unwrap().arguments(Path::new("/tmp/f")).join(" ");
        assert_eq!(typed("switches"), "trace --depth switches --no-stacks -o /tmp/f --");
        assert_eq!(typed("calls"), "trace --depth calls --no-stacks -o /tmp/f --");
        assert_eq!(typed("stacks"), "trace --depth switches --stacks -o /tmp/f --");
    }

    #[test]
    fn what_is_not_installed_says_how_to_get_it() {
        let missing = Tool { binary: "no-such-tool", package: "some-package", ..NONE };
        let expected = Err("not installed: apt-get install some-package".to_owned());
        assert_eq!(missing.locate(Path::new("")), expected);
    }
}
