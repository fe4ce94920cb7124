//! The commands that are named when rights are missing: with the path of this program and the user's own
//! arguments, so that they can be copied.

/// The path of this program, quoted for a shell.
pub(super) fn executable() -> String {
    let path = std::env::current_exe().ok().and_then(|path| path.into_os_string().into_string().ok());
    match path {
        // So does the kernel name a program whose file was replaced.
        Some(path) => quote(path.strip_suffix(" (deleted)").unwrap_or(&path)),
        None => "concprobe".to_owned(),
    }
}

pub(super) fn missing_privilege(found: &str, arguments: &[String]) -> String {
    message(found, arguments, &executable())
}

fn message(found: &str, arguments: &[String], executable: &str) -> String {
    let command = join(executable, arguments);
    let without = without_bpf(arguments).map(|text| format!(", or {text}")).unwrap_or_default();
    format!(
        "loading eBPF programs needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), and this process {found}: run \
         `sudo {command}`{without}; `{executable} doctor` shows how to grant them for good"
    )
}

/// How to do without the kernel's help, for commands that can.
pub(super) fn without_bpf(arguments: &[String]) -> Option<String> {
    if arguments.first().is_none_or(|command| command != "run") {
        return None;
    }
    Some(format!("measure without evidence from the kernel: `{} --no-bpf`", join("concprobe", arguments)))
}

fn join(program: &str, arguments: &[String]) -> String {
    let words = arguments.iter().map(|argument| quote(argument));
    std::iter::once(program.to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The word as a POSIX shell reads it back.
fn quote(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn the_message_names_what_is_missing_and_both_ways_out() {
        assert_eq!(
            message("lacks CAP_PERFMON", &arguments(&["run", "sem-fast"]), "/opt/concprobe"),
            "loading eBPF programs needs CAP_BPF and CAP_PERFMON (or CAP_SYS_ADMIN), and this process lacks \
             CAP_PERFMON: run `sudo /opt/concprobe run sem-fast`, or measure without evidence from the kernel: \
             `concprobe run sem-fast --no-bpf`; `/opt/concprobe doctor` shows how to grant them for good"
        );
    }

    #[test]
    fn a_command_that_cannot_do_without_the_kernel_is_not_told_to() {
        let text = message("lacks CAP_BPF", &arguments(&["trace", "--", "./a b", "it's"]), "/opt/concprobe");
        assert!(!text.contains("--no-bpf"), "{text}");
        assert!(text.contains(r"`sudo /opt/concprobe trace -- './a b' 'it'\''s'`"), "{text}");
    }

    #[test]
    fn words_that_a_shell_would_change_are_quoted() {
        assert_eq!(quote("500us"), "500us");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("$HOME"), "'$HOME'");
        assert_eq!(quote("a\nb"), "'a\nb'");
    }
}
