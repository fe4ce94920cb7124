//! The address spaces of the processes that are followed, each with the programs it ran one after the
//! other. Knows no system call: what changes is told.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{
    mappings::Dropped,
    proc_maps::Line,
    ring::{Change, Event},
    table::{HEAP, Mapping, Origin, Table},
};

/// Mappings of one program that are kept. Large programs have a few thousand.
const LIMIT_EACH: usize = 16_384;
/// Mappings of all processes that are kept; one takes about 100 bytes.
const LIMIT_ALL: usize = 262_144;
/// Programs run by all processes that are kept.
const LIMIT_PROGRAMS: usize = 65_536;

/// The time in which a process ran one program.
#[derive(Debug, Clone)]
struct Program {
    from_ns: u64,
    /// Shared with the parent until either maps something.
    table: Arc<Table>,
}

/// What is known of a process.
#[derive(Debug, Default)]
pub(super) struct Process {
    programs: Vec<Program>,
    /// When its first thread ended; the others may go on for a while.
    pub(super) ended_ns: Option<u64>,
    /// When `/proc/PID/maps` was last read.
    pub(super) read_ns: Option<u64>,
}

/// All processes that are followed.
#[derive(Debug, Default)]
pub(super) struct Processes {
    by_pid: HashMap<i32, Process>,
    origins: HashSet<Arc<Origin>>,
    mappings: usize,
    programs: usize,
    pub(super) dropped: Dropped,
}

impl Processes {
    pub(super) fn get(&self, pid: i32) -> Option<&Process> {
        self.by_pid.get(&pid)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_pid.is_empty()
    }

    /// The process, which is followed from now on.
    pub(super) fn follow(&mut self, pid: i32) -> &mut Process {
        self.by_pid.entry(pid).or_default()
    }

    /// Takes note of a change, if it concerns a process that is followed.
    pub(super) fn apply(&mut self, event: Event) {
        let Event { time_ns, pid, change } = event;
        if let Change::Fork { parent } = change {
            if let Some(process) = self.by_pid.get(&parent) {
                let table = process.programs.last().map(|program| Arc::clone(&program.table));
                self.begin(pid, time_ns, table.unwrap_or_default());
            }
            return;
        }
        let Some(process) = self.by_pid.get_mut(&pid) else { return };
        match change {
            Change::Fork { .. } => (),
            Change::Exec => self.begin(pid, time_ns, Arc::default()),
            Change::Exit => process.ended_ns = Some(time_ns),
            Change::Map { start, end, file_offset, protection, shared, origin } => {
                if process.programs.is_empty() {
                    self.begin(pid, 0, Arc::default());
                }
                let line = Line { start, end, file_offset, protection, shared, origin };
                self.map(pid, line, time_ns);
            }
        }
    }

    /// Takes note of what `/proc/PID/maps` said at `now_ns`. What was not known before was mapped since the
    /// program began; what differs has changed since the file was last read.
    pub(super) fn read(&mut self, pid: i32, lines: Vec<Line>, now_ns: u64) {
        let process = self.follow(pid);
        let last_ns = process.read_ns.replace(now_ns).unwrap_or(now_ns);
        let begin = process.programs.is_empty();
        let from_ns = process.programs.last().map_or(0, |program| program.from_ns);
        if begin {
            self.begin(pid, 0, Arc::default());
        }
        for line in lines {
            let known = self.table(pid).is_some_and(|table| table.overlaps(line.start, line.end));
            self.map(pid, line, if known { last_ns } else { from_ns });
        }
    }

    /// What was mapped at an address at that time.
    pub(super) fn find(&self, pid: i32, time_ns: u64, address: u64) -> Option<&Mapping> {
        self.at(pid, time_ns)?.find(address, time_ns)
    }

    /// The closest file below an address at that time.
    pub(super) fn file_below(&self, pid: i32, time_ns: u64, address: u64) -> Option<&Mapping> {
        self.at(pid, time_ns)?.file_below(address, time_ns)
    }

    /// Whether the process still ran, as far as is known, the program that it ran at that time.
    pub(super) fn is_current(&self, pid: i32, time_ns: u64) -> bool {
        self.by_pid.get(&pid).is_none_or(|process| {
            process.ended_ns.is_none() && process.programs.last().is_none_or(|last| last.from_ns <= time_ns)
        })
    }

    /// Forgets what ended before that time.
    pub(super) fn release(&mut self, before_ns: u64) {
        self.by_pid.retain(|_, process| process.ended_ns.is_none_or(|ended_ns| ended_ns >= before_ns));
        for process in self.by_pid.values_mut() {
            let keep = process.programs.partition_point(|program| program.from_ns <= before_ns);
            process.programs.drain(..keep.saturating_sub(1));
        }
        self.programs = self.by_pid.values().map(|process| process.programs.len()).sum();
        let mut tables = HashSet::new();
        let programs = self.by_pid.values().flat_map(|process| &process.programs);
        self.mappings = programs
            .filter(|program| tables.insert(Arc::as_ptr(&program.table)))
            .map(|program| program.table.len())
            .sum();
        self.origins.retain(|origin| Arc::strong_count(origin) > 1);
    }

    fn at(&self, pid: i32, time_ns: u64) -> Option<&Table> {
        let programs = &self.by_pid.get(&pid)?.programs;
        let count = programs.partition_point(|program| program.from_ns <= time_ns);
        programs.get(count.checked_sub(1)?).map(|program| &*program.table)
    }

    fn table(&self, pid: i32) -> Option<&Table> {
        self.by_pid.get(&pid)?.programs.last().map(|program| &*program.table)
    }

    fn begin(&mut self, pid: i32, from_ns: u64, table: Arc<Table>) {
        let program = Program { from_ns, table };
        if self.programs < LIMIT_PROGRAMS {
            self.programs += 1;
            self.follow(pid).programs.push(program);
        } else {
            self.dropped.programs += 1;
            // The mappings of a new program must not be taken for those of the one before.
            let last = self.by_pid.get_mut(&pid).and_then(|process| process.programs.last_mut());
            let Some(last) = last else { return };
            *last = program;
        }
        let process = self.follow(pid);
        // A number that is used again belongs to another process, which has not ended.
        process.ended_ns = None;
    }

    fn map(&mut self, pid: i32, mut line: Line, from_ns: u64) {
        let Some(program) = self.by_pid.get_mut(&pid).and_then(|process| process.programs.last_mut()) else {
            return;
        };
        if Arc::strong_count(&program.table) > 1 {
            self.mappings += program.table.len();
        }
        let before = program.table.len();
        let table = Arc::make_mut(&mut program.table);
        if before >= LIMIT_EACH || self.mappings >= LIMIT_ALL {
            let forgotten = table.forget_past();
            self.dropped.mappings += forgotten.max(1) as u64;
            if forgotten == 0 {
                return;
            }
        }
        if line.origin.is_anonymous() && table.is_heap(line.start) {
            line.origin.path = HEAP.into();
        }
        let origin = match self.origins.get(&line.origin) {
            Some(origin) => Arc::clone(origin),
            None => {
                let origin = Arc::new(line.origin);
                self.origins.insert(Arc::clone(&origin));
                origin
            }
        };
        let Line { start, end, file_offset, protection, shared, .. } = line;
        table.insert(Mapping { start, end, file_offset, protection, shared, origin }, from_ns);
        self.mappings = (self.mappings + table.len()).saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::{super::table::Protection, *};

    fn map(time_ns: u64, pid: i32, start: u64, path: &str) -> Event {
        let origin = Origin { path: path.into(), device: 1, inode: 1 };
        let (end, protection) = (start + 0x1000, Protection(5));
        let change = Change::Map { start, end, file_offset: 0, protection, shared: false, origin };
        Event { time_ns, pid, change }
    }

    fn event(time_ns: u64, pid: i32, change: Change) -> Event {
        Event { time_ns, pid, change }
    }

    fn name(processes: &Processes, pid: i32, time_ns: u64, address: u64) -> Option<String> {
        processes.find(pid, time_ns, address).map(|mapping| mapping.origin.name())
    }

    #[test]
    fn processes_that_are_not_followed_are_dropped() {
        let mut processes = Processes::default();
        processes.apply(map(1, 7, 0x1000, "/a"));
        processes.apply(event(2, 8, Change::Fork { parent: 7 }));
        processes.apply(event(2, 7, Change::Exec));
        assert!(processes.is_empty() && processes.origins.is_empty());
    }

    #[test]
    fn a_child_has_what_its_parent_had_and_keeps_it() {
        let mut processes = Processes::default();
        processes.follow(7);
        processes.apply(map(1, 7, 0x1000, "/a"));
        processes.apply(event(5, 8, Change::Fork { parent: 7 }));
        assert_eq!(processes.mappings, 1, "a child that maps nothing takes no memory");
        processes.apply(map(6, 7, 0x1000, "/b"));
        processes.apply(map(7, 8, 0x3000, "/c"));
        assert_eq!(name(&processes, 8, 9, 0x1000).as_deref(), Some("a"));
        assert_eq!(name(&processes, 7, 9, 0x1000).as_deref(), Some("b"));
        assert_eq!(name(&processes, 7, 9, 0x3000), None);
        assert_eq!(name(&processes, 8, 4, 0x1000), None, "it did not exist");
    }

    #[test]
    fn each_program_of_a_process_has_its_own_mappings() {
        let mut processes = Processes::default();
        processes.follow(7);
        processes.apply(map(1, 7, 0x1000, "/a"));
        processes.apply(event(5, 7, Change::Exec));
        processes.apply(map(6, 7, 0x1000, "/b"));
        assert_eq!(name(&processes, 7, 4, 0x1000).as_deref(), Some("a"));
        assert_eq!(name(&processes, 7, 5, 0x1000), None);
        assert_eq!(name(&processes, 7, 6, 0x1000).as_deref(), Some("b"));
        assert!(processes.is_current(7, 5) && !processes.is_current(7, 4));
        processes.release(5);
        assert_eq!(name(&processes, 7, 4, 0x1000), None);
        assert_eq!(name(&processes, 7, 6, 0x1000).as_deref(), Some("b"));
        assert_eq!((processes.mappings, processes.programs, processes.origins.len()), (1, 1, 1));
        processes.apply(event(9, 7, Change::Exit));
        assert!(!processes.is_current(7, 9));
        processes.release(9);
        assert!(!processes.is_empty());
        processes.release(10);
        assert!(processes.is_empty() && processes.mappings == 0);
    }

    #[test]
    fn what_is_over_the_limit_is_counted() {
        let mut processes = Processes::default();
        processes.follow(7);
        for index in 0..LIMIT_EACH as u64 + 3 {
            processes.apply(map(1, 7, 0x2000 * index, "/a"));
        }
        assert_eq!(processes.mappings, LIMIT_EACH);
        assert_eq!(processes.dropped, Dropped { mappings: 3, ..Dropped::default() });
        for time_ns in 2..9 {
            processes.apply(map(time_ns, 7, 0, if time_ns % 2 == 0 { "/b" } else { "/c" }));
        }
        assert!(processes.mappings <= LIMIT_EACH);
    }

    #[test]
    fn reading_a_process_again_fills_what_was_missing_and_dates_what_changed() {
        let mut processes = Processes::default();
        let line = |start, path: &str| Line {
            start,
            end: start + 0x1000,
            file_offset: 0,
            protection: Protection(5),
            shared: false,
            origin: Origin { path: path.into(), device: 1, inode: 1 },
        };
        processes.read(7, vec![line(0x1000, "/a")], 100);
        processes.read(7, vec![line(0x1000, "/b"), line(0x3000, "/c")], 200);
        assert_eq!(name(&processes, 7, 50, 0x1000).as_deref(), Some("a"));
        assert_eq!(name(&processes, 7, 150, 0x1000).as_deref(), Some("b"));
        assert_eq!(name(&processes, 7, 50, 0x3000).as_deref(), Some("c"));
    }
}
