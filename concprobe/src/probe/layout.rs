//! Where this kernel keeps what the programs read: offsets from its BTF and from the `format` files of
//! its tracepoints, never from its version.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, anyhow, bail};
use btf_rs::{Btf, Type};
use concprobe_common::config::{ABSENT, Config, POLLS};

use super::catalogue::Way;

/// The kernel's own type information.
pub const KERNEL_BTF: &str = "/sys/kernel/btf/vmlinux";

/// What is the same for both ways: numbers of system calls, registers of this architecture.
fn architecture(session: u64) -> Config {
    Config {
        session,
        nr_futex: number(libc::SYS_futex),
        nr_announce: number(libc::SYS_getppid),
        nr_restart: number(libc::SYS_restart_syscall),
        nr_exit: number(libc::SYS_exit),
        nr_exit_group: number(libc::SYS_exit_group),
        polls: polls(),
        ..registers()
    }
}

fn number(nr: libc::c_long) -> u32 {
    u32::try_from(nr).unwrap_or(ABSENT)
}

/// The calls that look whether something is ready.
fn polls() -> [u32; POLLS] {
    #[cfg(target_arch = "x86_64")]
    let older = [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait];
    #[cfg(not(target_arch = "x86_64"))]
    let older = [];
    let newer = [libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    let mut polls = [ABSENT; POLLS];
    for (poll, nr) in polls.iter_mut().zip(older.into_iter().chain(newer)) {
        *poll = number(nr);
    }
    polls
}

/// `struct pt_regs` of `arch/x86/include/asm/ptrace.h`. A 32-bit call has its arguments in `bx`, `cx`, `dx`, `si`.
#[cfg(target_arch = "x86_64")]
fn registers() -> Config {
    Config {
        regs_nr: 120,
        regs_arg0: 112,
        regs_arg1: 104,
        regs_arg2: 96,
        regs_arg3: 56,
        regs_sp: 152,
        regs_words: 21,
        regs_compat_arg0: 40,
        regs_compat_arg1: 88,
        regs_compat_arg2: 96,
        regs_compat_arg3: 104,
        ..Config::ABSENT
    }
}

/// `struct pt_regs` of `arch/arm64/include/asm/ptrace.h`; the first argument is kept in `orig_x0`.
#[cfg(target_arch = "aarch64")]
fn registers() -> Config {
    Config {
        regs_nr: 280,
        regs_arg0: 272,
        regs_arg1: 8,
        regs_arg2: 16,
        regs_arg3: 24,
        regs_sp: 248,
        regs_words: 36,
        ..Config::ABSENT
    }
}

/// What the programs need for the way they are attached.
///
/// # Errors
/// When the kernel does not offer that way, with what is missing.
pub fn resolve(way: Way, session: u64, tracefs: Option<&Path>) -> Result<Config> {
    let config = match way {
        Way::Btf => from_btf(&kernel_btf()?, architecture(session))?,
        Way::Classic => from_formats(
            &|event| {
                let root = tracefs.ok_or_else(|| {
                    anyhow!(
                        "tracefs is not mounted; `mount -t tracefs tracefs /sys/kernel/tracing` mounts it"
                    )
                })?;
                let path = root.join("events").join(event).join("format");
                fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
            },
            architecture(session),
        )?,
    };
    // Helpers that take the running thread as a BTF pointer need the kernel's BTF whatever the way.
    let Ok(btf) = kernel_btf() else { return Ok(config) };
    let has_task_pt_regs = has_helper(&btf, "BPF_FUNC_task_pt_regs");
    let task_status =
        if has_task_pt_regs && cfg!(target_arch = "x86_64") { thread_status(&btf) } else { ABSENT };
    Ok(Config { has_task_pt_regs: u32::from(has_task_pt_regs), task_status, ..config })
}

/// `task_struct.thread_info.status`, which marks 32-bit calls on x86-64.
fn thread_status(btf: &Btf) -> u32 {
    let info = member(btf, "task_struct", "thread_info");
    let status = member(btf, "thread_info", "status");
    info.saturating_add(status)
}

fn kernel_btf() -> Result<Btf> {
    // Mapping the file spares parsing it, where the kernel lets it be mapped (Linux 6.16).
    Btf::from_file_with_backend(KERNEL_BTF, btf_rs::Backend::Mmap)
        .or_else(|_| Btf::from_file(KERNEL_BTF))
        .with_context(|| format!("cannot read the kernel's type information at {KERNEL_BTF}"))
}

fn from_btf(btf: &Btf, base: Config) -> Result<Config> {
    let task = members(btf, "task_struct")?;
    let offset = |names: &[&str]| offset_of(&task, names);
    let required = |names: &[&str]| {
        offset(names).ok_or_else(|| anyhow!("the kernel's task_struct has no field {}", names.join(" or ")))
    };
    // (void *, bool, prev, next [, prev_state]): the state came in Linux 5.18 and was ported back.
    let switch_passes_state = tracepoint_arguments(btf, "sched_switch")? >= 5;
    Ok(Config {
        task_pid: required(&["pid"])?,
        task_tgid: required(&["tgid"])?,
        task_group_leader: offset(&["group_leader"]).unwrap_or(ABSENT),
        task_thread_pid: offset(&["thread_pid"]).unwrap_or(ABSENT),
        pid_level: member(btf, "pid", "level"),
        pid_numbers: member(btf, "pid", "numbers"),
        upid_size: size_of_struct(btf, "upid"),
        task_state: required(&["__state", "state"])?,
        switch_passes_state: u32::from(switch_passes_state),
        ..base
    })
}

/// The offset of the first of these members that there is: kernels rename them, and which release did so says nothing
/// of kernels with ported changes.
fn offset_of(members: &[(String, u32)], names: &[&str]) -> Option<u32> {
    names.iter().find_map(|name| members.iter().find(|(member, _)| member == name).map(|(_, offset)| *offset))
}

/// Names and offsets of the members of a kernel structure.
fn members(btf: &Btf, name: &str) -> Result<Vec<(String, u32)>> {
    for candidate in btf.resolve_types_by_name(name)? {
        if let Type::Struct(task) = candidate {
            return task
                .members
                .iter()
                .map(|member| Ok((btf.resolve_name(member).unwrap_or_default(), member.bit_offset() / 8)))
                .collect();
        }
    }
    bail!("the kernel's type information has no {name}")
}

fn member(btf: &Btf, name: &str, member: &str) -> u32 {
    let members = members(btf, name).unwrap_or_default();
    members.into_iter().find(|(found, _)| found == member).map_or(ABSENT, |(_, offset)| offset)
}

fn size_of_struct(btf: &Btf, name: &str) -> u32 {
    let types = btf.resolve_types_by_name(name).unwrap_or_default();
    types
        .iter()
        .find_map(|candidate| match candidate {
            Type::Struct(found) => u32::try_from(found.size()).ok(),
            _ => None,
        })
        .unwrap_or(ABSENT)
}

/// Parameters of a tracepoint's function, its private pointer included.
fn tracepoint_arguments(btf: &Btf, name: &str) -> Result<usize> {
    for candidate in btf.resolve_types_by_name(&format!("btf_trace_{name}"))? {
        if let Type::Typedef(definition) = candidate
            && let Type::Ptr(pointer) = btf.resolve_chained_type(&definition)?
            && let Type::FuncProto(function) = btf.resolve_chained_type(&pointer)?
        {
            return Ok(function.parameters.len());
        }
    }
    bail!("the kernel's type information has no tracepoint {name}")
}

fn has_helper(btf: &Btf, name: &str) -> bool {
    let Ok(types) = btf.resolve_types_by_name("bpf_func_id") else { return false };
    types.iter().any(|candidate| match candidate {
        Type::Enum(helpers) => {
            helpers.members.iter().any(|member| btf.resolve_name(member).is_ok_and(|found| found == name))
        }
        _ => false,
    })
}

fn from_formats(format: &dyn Fn(&str) -> Result<String>, base: Config) -> Result<Config> {
    let offsets = |event: &str, names: &[&str]| -> Result<Vec<u32>> {
        let text = format(event)?;
        names
            .iter()
            .map(|name| {
                field_offset(&text, name)
                    .ok_or_else(|| anyhow!("the record of tracepoint {event} has no field {name}"))
            })
            .collect()
    };
    let switch = offsets("sched/sched_switch", &["prev_pid", "prev_state", "next_pid"])?;
    let wakeup = offsets("sched/sched_wakeup", &["pid"])?;
    let wakeup_new = offsets("sched/sched_wakeup_new", &["pid"])?;
    if wakeup != wakeup_new {
        bail!("the records of sched_wakeup and sched_wakeup_new differ");
    }
    let newtask = offsets("task/task_newtask", &["pid", "clone_flags"])?;
    let rename = offsets("task/task_rename", &["pid", "newcomm"])?;
    let exec = offsets("sched/sched_process_exec", &["pid", "old_pid"])?;
    let enter = offsets("raw_syscalls/sys_enter", &["id", "args"])?;
    let exit = offsets("raw_syscalls/sys_exit", &["id", "ret"])?;
    Ok(Config {
        switch_prev_pid: switch[0],
        switch_prev_state: switch[1],
        switch_next_pid: switch[2],
        wakeup_pid: wakeup[0],
        newtask_pid: newtask[0],
        newtask_clone_flags: newtask[1],
        rename_pid: rename[0],
        rename_newcomm: rename[1],
        exec_pid: exec[0],
        exec_old_pid: exec[1],
        enter_id: enter[0],
        enter_args: enter[1],
        exit_id: exit[0],
        exit_ret: exit[1],
        ..base
    })
}

/// The offset of a field in a tracepoint's `format` file, whose lines read
/// `field:pid_t prev_pid; offset:24; size:4; signed:1;`, with tabs between.
fn field_offset(format: &str, name: &str) -> Option<u32> {
    format.lines().find_map(|line| {
        let mut parts = line.trim().strip_prefix("field:")?.split(';').map(str::trim);
        let declared = parts.next()?.rsplit([' ', '*']).next()?;
        let declared = declared.split('[').next()?;
        if declared != name {
            return None;
        }
        parts.find_map(|part| part.strip_prefix("offset:"))?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SWITCH_6_18: &str = "name: sched_switch\nID: 301\nformat:\n\
        \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
        \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
        \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
        \tfield:long prev_state;\toffset:32;\tsize:8;\tsigned:1;\n\
        \tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n";

    #[test]
    fn offsets_are_read_from_the_format_of_the_kernel_that_runs() {
        assert_eq!(field_offset(SWITCH_6_18, "prev_pid"), Some(24));
        assert_eq!(field_offset(SWITCH_6_18, "prev_comm"), Some(8));
        assert_eq!(field_offset(SWITCH_6_18, "pid"), None, "no part of a name matches");
        assert_eq!(field_offset("", "prev_pid"), None);
        assert_eq!(field_offset("field:pid_t prev_pid;", "prev_pid"), None);
    }

    #[test]
    fn the_two_system_call_records_are_parsed_each_by_itself() {
        let raw = "\tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
                   \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n";
        let named = "\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n\
                     \tfield:u32 * uaddr;\toffset:16;\tsize:8;\tsigned:0;\n";
        assert_eq!((field_offset(raw, "id"), field_offset(raw, "args")), (Some(8), Some(16)));
        assert_eq!((field_offset(named, "id"), field_offset(named, "uaddr")), (None, Some(16)));
    }

    #[test]
    fn a_record_without_a_needed_field_names_the_field() {
        let format = |event: &str| -> Result<String> {
            Ok(if event == "sched/sched_switch" {
                SWITCH_6_18.replace("prev_state", "state")
            } else {
                String::new()
            })
        };
        let error = from_formats(&format, Config::ABSENT).unwrap_err();
        assert_eq!(error.to_string(), "the record of tracepoint sched/sched_switch has no field prev_state");
    }

    #[test]
    fn a_renamed_field_is_found_under_whichever_name_there_is() {
        let task = |state: &str| vec![("flags".to_owned(), 44), (state.to_owned(), 24)];
        for state in ["__state", "state"] {
            assert_eq!(offset_of(&task(state), &["__state", "state"]), Some(24), "{state}");
        }
        assert_eq!(offset_of(&task("state_of_x"), &["__state", "state"]), None, "no part of a name matches");
    }

    #[test]
    fn this_kernel_s_task_struct_is_found_by_name() {
        let config = from_btf(&kernel_btf().unwrap(), Config::ABSENT).unwrap();
        assert_eq!(config.task_tgid, config.task_pid + 4, "pid and tgid are neighbours in every kernel");
        assert_ne!(config.task_state, ABSENT);
    }
}
