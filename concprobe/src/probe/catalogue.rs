//! The table of kernel programs: a row for each hook, which both ways of attaching share. Loading,
//! attaching and the cost report iterate it; a test compares it with the object.

/// How the programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// BTF tracepoints: cheapest, need the kernel's type information.
    Btf,
    /// Classic tracepoints: need tracefs, work without BTF.
    Classic,
}

impl Way {
    /// The word for it in results and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Btf => "btf",
            Self::Classic => "classic",
        }
    }
}

/// Programs that are attached and detached together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Switches, wake-ups, new threads, exec: always on.
    Switches,
    /// Every system call: depth *calls*.
    Calls,
    /// What changes the names of threads: `trace` and `attach`.
    Names,
    /// Who wakes: depth *stacks*.
    Stacks,
    /// Calls of lock functions: a uprobe, at many places, in no table.
    LockCalls,
    /// Recognises threads that announce themselves; on only while they do.
    Announce,
}

/// One kernel program, in both flavours.
#[derive(Debug)]
pub struct Row {
    /// Name of the program in the object is `{stem}_btf` or `{stem}_classic`.
    pub stem: &'static str,
    /// Category of the tracepoint in tracefs.
    pub category: &'static str,
    /// Name of the tracepoint.
    pub hook: &'static str,
    /// When it is attached.
    pub set: Set,
}

impl Row {
    /// Name of the program in the object.
    pub fn program(&self, way: Way) -> String {
        format!("{}_{}", self.stem, way.name())
    }
}

/// In the order of attaching: what ends an interval comes before what starts one.
pub const PROGRAMS: &[Row] = &[
    Row { stem: "exec", category: "sched", hook: "sched_process_exec", set: Set::Switches },
    Row { stem: "end", category: "sched", hook: "sched_process_exit", set: Set::Switches },
    Row { stem: "wakeup", category: "sched", hook: "sched_wakeup", set: Set::Switches },
    Row { stem: "wakeup_new", category: "sched", hook: "sched_wakeup_new", set: Set::Switches },
    Row { stem: "switch", category: "sched", hook: "sched_switch", set: Set::Switches },
    Row { stem: "newtask", category: "task", hook: "task_newtask", set: Set::Switches },
    Row { stem: "rename", category: "task", hook: "task_rename", set: Set::Names },
    Row { stem: "waking", category: "sched", hook: "sched_waking", set: Set::Stacks },
    Row { stem: "exit", category: "raw_syscalls", hook: "sys_exit", set: Set::Calls },
    Row { stem: "enter", category: "raw_syscalls", hook: "sys_enter", set: Set::Calls },
    Row { stem: "announce", category: "raw_syscalls", hook: "sys_enter", set: Set::Announce },
];

/// The program at lock functions, which has one flavour and is attached at as many places as there are.
pub const LOCK_CALL: &str = "lock_call";

/// The program that lists the ids of all threads: the task iterator.
pub const LIST: &str = "list";

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_table_and_the_programs_in_the_object_are_the_same() {
        let object = aya_obj::Object::parse(crate::probe::session::OBJECT).unwrap();
        let found: BTreeSet<String> = object.programs.keys().cloned().collect();
        let listed: BTreeSet<String> = PROGRAMS
            .iter()
            .flat_map(|row| [row.program(Way::Btf), row.program(Way::Classic)])
            .chain([LOCK_CALL.to_owned(), LIST.to_owned()])
            .collect();
        assert_eq!(found, listed);
    }
}
