//! What about this machine makes figures less trustworthy: what was seen, why it matters, what helps.

use super::{Environment, format_cpu_list};

/// Clock sources that user space reads without a system call (the vDSO), one or more for each port.
const FAST_CLOCKS: [&str; 8] = [
    "tsc",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
    "MIPS",
];

pub(super) fn all(environment: &Environment) -> Vec<String> {
    [
        load(environment),
        quota(environment),
        single_cpu(environment),
        governor(environment),
        shared_cores(environment),
        clock(environment),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[allow(clippy::cast_precision_loss, reason = "CPU counts are small")]
fn cpus(environment: &Environment) -> f64 {
    environment.usable_cpu_count() as f64
}

fn load(environment: &Environment) -> Option<String> {
    let load = environment.load_average_1m?;
    (load > cpus(environment) * 0.5).then(|| {
        format!(
            "the load average of the last minute is {load:.2} on {}: other work competes for the CPU, and \
             its time counts as run-queue time here; wait until it has ended (an own earlier run counts too)",
            count(environment.usable_cpu_count())
        )
    })
}

fn quota(environment: &Environment) -> Option<String> {
    let quota = environment.cpu_quota?;
    (quota < cpus(environment)).then(|| {
        format!(
            "the control group allows {quota:.2} CPUs of {} usable: threads are stopped together when it is \
             used up, which counts as run-queue time; raise cpu.max (cpu.cfs_quota_us), or use fewer threads",
            environment.usable_cpu_count()
        )
    })
}

fn single_cpu(environment: &Environment) -> Option<String> {
    let [cpu] = environment.cpus_usable[..] else { return None };
    let online = environment.cpus_online.unwrap_or(1);
    let advice = if online > 1 { "; allow more CPUs with taskset or the cpuset" } else { "" };
    Some(format!(
        "only CPU {cpu} of {online} online is usable: threads take turns and never run side by side, so \
         spinning cannot succeed and each hand-over is a switch{advice}"
    ))
}

fn governor(environment: &Environment) -> Option<String> {
    let governor = environment.governor.as_deref().filter(|governor| *governor != "performance")?;
    Some(format!(
        "the CPU frequency governor is {governor}: the frequency changes with the load, and short sleeping \
         workloads run slower than busy ones; for the time of the measurement set it with `cpupower \
         frequency-set -g performance`"
    ))
}

fn shared_cores(environment: &Environment) -> Option<String> {
    let cores = environment.cores_usable?;
    let usable = environment.cpus_usable.len();
    (environment.smt != Some(false) && cores < usable).then(|| {
        format!(
            "the {usable} usable CPUs ({}) are {cores} cores (SMT): threads that share a core slow each other \
             down; pin to one CPU of each core (`lscpu -e` shows them) for steadier figures",
            format_cpu_list(&environment.cpus_usable)
        )
    })
}

fn clock(environment: &Environment) -> Option<String> {
    let source = environment.clock_source.as_deref().filter(|source| !is_fast_clock(source))?;
    Some(format!(
        "the clock source is {source}: every reading of the clock may be a system call, which adds to short \
         operations; see /sys/devices/system/clocksource/clocksource0/available_clocksource for a faster one"
    ))
}

pub(super) fn is_fast_clock(source: &str) -> bool {
    FAST_CLOCKS.contains(&source)
}

fn count(cpus: usize) -> String {
    if cpus == 1 { "1 usable CPU".to_owned() } else { format!("{cpus} usable CPUs") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Environment {
        Environment {
            cpus_online: Some(4),
            cpus_usable: vec![0, 1, 2, 3],
            cores_usable: Some(4),
            governor: Some("performance".to_owned()),
            clock_source: Some("tsc".to_owned()),
            load_average_1m: Some(2.0),
            smt: Some(false),
            ..Environment::default()
        }
    }

    fn only_warning(environment: &Environment) -> String {
        let warnings = environment.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(!warnings[0].contains('\n'));
        warnings[0].clone()
    }

    #[test]
    fn a_quiet_machine_gets_no_warning() {
        assert_eq!(quiet().warnings(), [""; 0]);
        assert_eq!(Environment::default().warnings(), [""; 0]);
    }

    #[test]
    fn a_load_above_half_of_the_usable_cpus_is_named() {
        let warning = only_warning(&Environment { load_average_1m: Some(2.01), ..quiet() });
        assert!(warning.starts_with("the load average of the last minute is 2.01 on 4 usable CPUs: "));
    }

    #[test]
    fn a_quota_below_the_usable_cpus_is_named_and_one_above_is_not() {
        let warning = only_warning(&Environment { cpu_quota: Some(0.2), ..quiet() });
        assert!(warning.starts_with("the control group allows 0.20 CPUs of 4 usable: "), "{warning}");
        assert_eq!(Environment { cpu_quota: Some(4.0), ..quiet() }.warnings(), [""; 0]);
    }

    #[test]
    fn a_single_usable_cpu_is_named() {
        let one =
            Environment { cpus_usable: vec![2], cores_usable: Some(1), load_average_1m: None, ..quiet() };
        assert!(only_warning(&one).starts_with("only CPU 2 of 4 online is usable: "));
    }

    #[test]
    fn a_governor_that_changes_the_frequency_is_named() {
        let warning = only_warning(&Environment { governor: Some("powersave".to_owned()), ..quiet() });
        assert!(warning.starts_with("the CPU frequency governor is powersave: "));
    }

    #[test]
    fn cpus_that_share_cores_are_named() {
        let warning = only_warning(&Environment { cores_usable: Some(2), smt: Some(true), ..quiet() });
        assert!(warning.starts_with("the 4 usable CPUs (0-3) are 2 cores (SMT): "), "{warning}");
    }

    #[test]
    fn a_clock_that_may_need_a_system_call_is_named() {
        let warning = only_warning(&Environment { clock_source: Some("hpet".to_owned()), ..quiet() });
        assert!(warning.starts_with("the clock source is hpet: every reading"));
    }
}
