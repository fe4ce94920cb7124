//! What the user side tells the kernel side before it is loaded: offsets of this kernel's structures and
//! records, and which features it has. All of it is constant for the verifier, so what is not there is
//! pruned before it can be refused.

/// Name of the global that holds the [`Config`].
pub const SYMBOL: &str = "CONFIG";

/// Offset that says "this kernel does not have it".
pub const ABSENT: u32 = u32::MAX;

/// How many calls can be polls.
pub const POLLS: usize = 8;

/// Offsets in bytes; [`ABSENT`] for what this kernel lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Config {
    /// Tells this session's announcements from those of another one.
    pub session: u64,
    /// `task_struct.pid`.
    pub task_pid: u32,
    /// `task_struct.tgid`.
    pub task_tgid: u32,
    /// `task_struct.__state` or `.state`, read only where the tracepoint does not pass the state.
    pub task_state: u32,
    /// 1 when the `sched_switch` tracepoint passes the state as its fourth argument.
    pub switch_passes_state: u32,
    /// 1 when the helper `bpf_task_pt_regs` can be called (Linux 5.15).
    pub has_task_pt_regs: u32,
    /// 1 when calls are to be counted by number too.
    pub count_by_number: u32,
    /// Number of `futex`.
    pub nr_futex: u32,
    /// Number of `getppid`, the call whose spare arguments carry an announcement.
    pub nr_announce: u32,
    /// `pt_regs`: number of the system call.
    pub regs_nr: u32,
    /// `pt_regs`: its first argument.
    pub regs_arg0: u32,
    /// `pt_regs`: its second argument.
    pub regs_arg1: u32,
    /// `pt_regs`: its third argument.
    pub regs_arg2: u32,
    /// Record of `sched_switch`: `prev_pid`.
    pub switch_prev_pid: u32,
    /// Record of `sched_switch`: `prev_state`.
    pub switch_prev_state: u32,
    /// Record of `sched_switch`: `next_pid`.
    pub switch_next_pid: u32,
    /// Record of `sched_wakeup` and `sched_wakeup_new`: `pid`.
    pub wakeup_pid: u32,
    /// Record of `task_newtask`: `pid`.
    pub newtask_pid: u32,
    /// Record of `task_newtask`: `clone_flags`.
    pub newtask_clone_flags: u32,
    /// Record of `sched_process_exec`: `pid`.
    pub exec_pid: u32,
    /// Record of `sched_process_exec`: `old_pid`.
    pub exec_old_pid: u32,
    /// Record of `raw_syscalls:sys_enter`: `id`.
    pub enter_id: u32,
    /// Record of `raw_syscalls:sys_enter`: `args`.
    pub enter_args: u32,
    /// Record of `raw_syscalls:sys_exit`: `id`.
    pub exit_id: u32,
    /// Record of `raw_syscalls:sys_exit`: `ret`.
    pub exit_ret: u32,
    /// 1 when sleeps are summed by site and ended threads by name: `trace` and `attach`.
    pub tracing: u32,
    /// 1 when the processes that a tracked one creates are tracked too.
    pub follow: u32,
    /// 1 when stacks are copied.
    pub stacks: u32,
    /// `task_struct.group_leader`.
    pub task_group_leader: u32,
    /// Keeps the size explicit.
    pub reserved: u32,
    /// `task_struct.thread_pid`.
    pub task_thread_pid: u32,
    /// `pid.level`: how many PID namespaces deep.
    pub pid_level: u32,
    /// `pid.numbers`: its number in each of them.
    pub pid_numbers: u32,
    /// Size of a `upid`, an element of those.
    pub upid_size: u32,
    /// Of the 32-bit mark: `task_struct.thread_info.status`, or [`ABSENT`] where there is no such mark.
    pub task_status: u32,
    /// Numbers of the calls that look whether something is ready and return 0 when nothing is.
    pub polls: [u32; POLLS],
    /// Number of `restart_syscall`.
    pub nr_restart: u32,
    /// Number of `exit`.
    pub nr_exit: u32,
    /// Number of `exit_group`.
    pub nr_exit_group: u32,
    /// `pt_regs`: its fourth argument.
    pub regs_arg3: u32,
    /// `pt_regs`: the user stack pointer.
    pub regs_sp: u32,
    /// `pt_regs`: its size in words.
    pub regs_words: u32,
    /// `pt_regs`: first argument of a 32-bit call; the others follow in this order.
    pub regs_compat_arg0: u32,
    /// Second argument of a 32-bit call.
    pub regs_compat_arg1: u32,
    /// Third argument of a 32-bit call.
    pub regs_compat_arg2: u32,
    /// Fourth argument of a 32-bit call.
    pub regs_compat_arg3: u32,
    /// Record of `task_rename`: `pid`.
    pub rename_pid: u32,
    /// Record of `task_rename`: `newcomm`.
    pub rename_newcomm: u32,
}

impl Config {
    /// Nothing known.
    pub const ABSENT: Self = Self {
        session: 0,
        task_pid: ABSENT,
        task_tgid: ABSENT,
        task_state: ABSENT,
        switch_passes_state: 0,
        has_task_pt_regs: 0,
        count_by_number: 0,
        nr_futex: ABSENT,
        nr_announce: ABSENT,
        regs_nr: ABSENT,
        regs_arg0: ABSENT,
        regs_arg1: ABSENT,
        regs_arg2: ABSENT,
        switch_prev_pid: ABSENT,
        switch_prev_state: ABSENT,
        switch_next_pid: ABSENT,
        wakeup_pid: ABSENT,
        newtask_pid: ABSENT,
        newtask_clone_flags: ABSENT,
        exec_pid: ABSENT,
        exec_old_pid: ABSENT,
        enter_id: ABSENT,
        enter_args: ABSENT,
        exit_id: ABSENT,
        exit_ret: ABSENT,
        tracing: 0,
        follow: 1,
        stacks: 0,
        task_group_leader: ABSENT,
        reserved: 0,
        task_thread_pid: ABSENT,
        pid_level: ABSENT,
        pid_numbers: ABSENT,
        upid_size: ABSENT,
        task_status: ABSENT,
        polls: [ABSENT; POLLS],
        nr_restart: ABSENT,
        nr_exit: ABSENT,
        nr_exit_group: ABSENT,
        regs_arg3: ABSENT,
        regs_sp: ABSENT,
        regs_words: ABSENT,
        regs_compat_arg0: ABSENT,
        regs_compat_arg1: ABSENT,
        regs_compat_arg2: ABSENT,
        regs_compat_arg3: ABSENT,
        rename_pid: ABSENT,
        rename_newcomm: ABSENT,
    };
}

const _: () = assert!(size_of::<Config>() == 224);
