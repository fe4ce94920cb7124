//! What this machine allows, and what to do about the rest. Each check is tried for real where that is cheap
//! (a map is created, a file is read), because a configuration does not tell what a policy refuses.

use serde::Serialize;

use crate::environment::Environment;

mod attachment;
mod bpf_call;
mod capability;
mod command;
mod explanation;
mod lockdown;
mod measurement;
mod statistics;

pub use explanation::explain_load_failure;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be.
    Met,
    /// Works, with less than all; `found` says what is less.
    Limited,
    /// Not so; without it a required check stops every measurement that needs the kernel.
    Unmet,
    /// Could not be found out; `found` says why.
    Unknown,
}

/// One thing that was examined.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Check {
    /// What was examined, in lower case but for names.
    pub name: &'static str,
    /// How it came out.
    pub state: State,
    /// Whether nothing can be measured with the kernel's help when it is unmet.
    pub required: bool,
    /// What was seen, with the system's own words where something failed.
    pub found: String,
    /// What helps, as a command where there is one.
    pub advice: Option<String>,
}

impl Check {
    fn optional(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self { name, state, required: false, found: found.into(), advice: None }
    }

    fn required(name: &'static str, state: State, found: impl Into<String>) -> Self {
        Self { required: true, ..Self::optional(name, state, found) }
    }

    fn advise(self, advice: impl Into<String>) -> Self {
        Self { advice: Some(advice.into()), ..self }
    }
}

/// The result of [`examine`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Diagnosis {
    /// All checks, in the order in which they are shown.
    pub checks: Vec<Check>,
}

/// Examines this machine and the rights of this process; takes a few milliseconds.
#[must_use]
pub fn examine() -> Diagnosis {
    examine_in(&Environment::read())
}

/// As [`examine`], for an environment that has just been read.
#[must_use]
pub fn examine_in(environment: &Environment) -> Diagnosis {
    let rights = capability::Rights::read(environment);
    let (btf, tracefs) = (attachment::btf(), attachment::tracefs());
    let attachment = attachment::attachment(btf.state, tracefs.state);
    let mut checks = vec![
        bpf_call::check(&rights, environment),
        capability::check(&rights, btf.state == State::Met),
        capability::user_namespace(&rights),
        btf,
        tracefs,
        attachment,
        lockdown::check(),
        statistics::check(&rights),
    ];
    checks.extend(measurement::checks(environment));
    Diagnosis { checks }
}

impl Diagnosis {
    /// Whether programs can be loaded and attached, as far as can be told beforehand.
    #[must_use]
    pub fn run_would_work(&self) -> bool {
        self.obstacles().next().is_none()
    }

    /// Whether the kernel's lockdown keeps BPF from reading kernel memory.
    #[must_use]
    pub fn is_locked_down(&self) -> bool {
        self.obstacles().any(|check| check.name == lockdown::NAME)
    }

    /// When rights are missing: which, and the command to run in place of `concprobe` with `arguments` (without
    /// the program's name).
    #[must_use]
    pub fn missing_privilege(&self, arguments: &[String]) -> Option<String> {
        let check = self.obstacles().find(|check| check.name == capability::NAME)?;
        Some(command::missing_privilege(&check.found, arguments))
    }

    /// The first reason why the kernel's help cannot be had, with what helps; missing rights come first, since
    /// they make other checks fail too.
    #[must_use]
    pub fn obstacle(&self, arguments: &[String]) -> Option<String> {
        self.missing_privilege(arguments).or_else(|| {
            let check = self.obstacles().next()?;
            let advice = check.advice.as_deref().map(|advice| format!("; {advice}")).unwrap_or_default();
            let without = command::without_bpf(arguments).map(|it| format!("; {it}")).unwrap_or_default();
            Some(format!("{}: {}{advice}{without}", check.name, check.found))
        })
    }

    fn obstacles(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.required && check.state == State::Unmet)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnosis(checks: &[Check]) -> Diagnosis {
        Diagnosis { checks: checks.to_vec() }
    }

    #[test]
    fn only_an_unmet_required_check_stops_a_run() {
        let optional = Check::optional("tracefs", State::Unmet, "not mounted");
        let unknown = Check::required(lockdown::NAME, State::Unknown, "securityfs is not mounted");
        assert!(diagnosis(&[optional.clone(), unknown.clone()]).run_would_work());
        let unmet = Check::required("attachment", State::Unmet, "neither way");
        assert!(!diagnosis(&[optional, unknown, unmet]).run_would_work());
    }

    #[test]
    fn missing_rights_are_named_before_what_follows_from_them() {
        let call = Check::required("BPF system call", State::Unmet, "bpf: Operation not permitted");
        let rights = Check::required(capability::NAME, State::Unmet, "lacks CAP_BPF and CAP_PERFMON");
        let message = diagnosis(&[call, rights]).obstacle(&["run".into(), "sem-fast".into()]).unwrap();
        assert!(message.contains("lacks CAP_BPF and CAP_PERFMON"), "{message}");
    }

    #[test]
    fn another_obstacle_is_told_with_its_advice() {
        let call = Check::required("BPF system call", State::Unmet, "refused (errno 13)").advise("ask");
        let message = diagnosis(&[call]).obstacle(&["attach".into()]).unwrap();
        assert_eq!(message, "BPF system call: refused (errno 13); ask");
    }

    #[test]
    fn confidentiality_is_told_apart_from_other_obstacles() {
        assert!(diagnosis(&[lockdown::judge(Ok("confidentiality"))]).is_locked_down());
        assert!(!diagnosis(&[lockdown::judge(Ok("integrity"))]).is_locked_down());
    }

    #[test]
    fn each_check_has_a_name_of_its_own_and_every_shortcoming_an_explanation() {
        let checks = examine().checks;
        let names: std::collections::BTreeSet<_> = checks.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), checks.len());
        assert!(checks.iter().all(|check| !check.found.is_empty()), "{checks:?}");
        assert!(
            checks.iter().all(|check| check.state != State::Unmet || check.advice.is_some()),
            "{checks:?}"
        );
    }
}
