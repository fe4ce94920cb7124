//! Who the command runs as: under sudo its caller and never root unasked, with `--user` whom that names,
//! otherwise whoever started concprobe, and then nothing is touched.

use std::{
    ffi::{CString, OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt as _, process::CommandExt as _},
    process::Command,
};

use anyhow::{Context as _, Result, bail, ensure};
use nix::unistd::{Gid, Uid, User, getgrouplist};

use super::image::inherited_environment;

/// What sudo tells of its caller (sudo(8), ENVIRONMENT). What the caller sets for sudo to read, such as
/// `SUDO_ASKPASS`, is theirs and stays.
const SUDO: &[&str] = &["SUDO_COMMAND", "SUDO_GID", "SUDO_HOME", "SUDO_TTY", "SUDO_UID", "SUDO_USER"];
const ROOT: u32 = 0;
const USUAL_SHELL: &str = "/bin/sh";
/// `setresuid` takes it for "leave as it is".
const NOBODY_AT_ALL: u32 = u32::MAX;

/// Whom the command runs as, and to whom result files belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// `None`: the one that concprobe has.
    other: Option<Account>,
    owner: Option<(u32, u32)>,
}

/// An account as login(1) would set it up.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Account {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
    name: OsString,
    home: OsString,
    shell: OsString,
}

/// What becoming somebody else failed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Step {
    Groups = 1,
    Group = 2,
    User = 3,
}

impl Identity {
    /// Whom the command runs as, `user` being what `--user` says: a name, a number, or `UID:GID`.
    ///
    /// # Errors
    /// When there is no such user, or concprobe may not become somebody else.
    pub fn find(user: Option<&str>) -> Result<Self> {
        Self::of(user, Uid::effective().as_raw(), |name| std::env::var_os(name))
    }

    /// The same for a given effective user and environment.
    ///
    /// # Errors
    /// As [`Identity::find`].
    pub fn of(
        user: Option<&str>,
        effective: u32,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self> {
        let under_sudo = effective == ROOT && variable("SUDO_UID").is_some();
        let caller = if under_sudo { Some(caller(&variable)) } else { None };
        let owner = caller.as_ref().and_then(|caller| caller.as_ref().ok()).map(|it| (it.uid, it.gid));
        let other = match (user, caller) {
            (None, None) => None,
            (None, Some(caller)) => Some(caller?),
            (Some(user), caller) => {
                let account = Account::named(user)?;
                let already = account.uid == effective && caller.is_none() && !user.contains(':');
                ensure!(
                    already || effective == ROOT,
                    "only root can run the command as another user ({user}): start concprobe with sudo"
                );
                (!already).then_some(account)
            }
        };
        Ok(Self { other, owner })
    }

    /// The user id of the command.
    pub fn uid(&self) -> u32 {
        self.other.as_ref().map_or_else(|| Uid::effective().as_raw(), |account| account.uid)
    }

    /// User and group that files with results have to be given to: sudo's caller, whoever the command runs
    /// as. `None`: they are right as they are.
    pub fn owner(&self) -> Option<(u32, u32)> {
        self.owner
    }

    /// The command's environment, given concprobe's.
    pub(super) fn environment(&self, inherited: Vec<OsString>) -> Vec<OsString> {
        let Some(account) = &self.other else { return inherited };
        let own = [
            ("HOME", &account.home),
            ("USER", &account.name),
            ("LOGNAME", &account.name),
            ("SHELL", &account.shell),
        ];
        let replaced = |entry: &OsString| {
            let name = entry.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
            SUDO.iter().chain(own.iter().map(|(name, _)| name)).any(|other| other.as_bytes() == name)
        };
        let mut environment: Vec<OsString> = inherited.into_iter().filter(|entry| !replaced(entry)).collect();
        environment.extend(own.iter().map(|(name, value)| {
            let mut entry = OsString::from(*name);
            entry.push("=");
            entry.push(value);
            entry
        }));
        environment
    }

    /// Lets a command run as that user, with their environment.
    pub fn apply_to(&self, command: &mut Command) {
        if self.other.is_none() {
            return;
        }
        command.env_clear();
        for entry in self.environment(inherited_environment()) {
            if let Some(at) = entry.as_bytes().iter().position(|byte| *byte == b'=') {
                let (name, value) = entry.as_bytes().split_at(at);
                command.env(OsStr::from_bytes(name), OsStr::from_bytes(&value[1..]));
            }
        }
        let identity = self.clone();
        // SAFETY: what the closure does are plain system calls, which a process between fork and exec may make.
        unsafe {
            command.pre_exec(move || {
                identity.assume().map_err(|(_, error)| io::Error::from_raw_os_error(error))
            });
        }
    }

    /// Becomes that user for good. Between fork and exec: the C library's own calls would try to take other
    /// threads along.
    pub(super) fn assume(&self) -> Result<(), (Step, i32)> {
        let Some(Account { uid, gid, groups, .. }) = &self.other else { return Ok(()) };
        let done = |step, result| if result == 0 { Ok(()) } else { Err((step, error_number())) };
        // SAFETY: the kernel reads as many groups as it is told that there are.
        done(Step::Groups, unsafe { libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) })?;
        // SAFETY: a plain system call.
        done(Step::Group, unsafe { libc::syscall(libc::SYS_setresgid, *gid, *gid, *gid) })?;
        // SAFETY: a plain system call.
        done(Step::User, unsafe { libc::syscall(libc::SYS_setresuid, *uid, *uid, *uid) })
    }
}

/// `errno` as a number; makes nothing on the heap.
pub(super) fn error_number() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Who called sudo.
fn caller(variable: &impl Fn(&str) -> Option<OsString>) -> Result<Account> {
    let number = |name: &str| -> Result<Option<u32>> {
        let Some(value) = variable(name) else { return Ok(None) };
        let valid = value.to_str().and_then(parse_id);
        let advice = "say with --user who is to run the command";
        Ok(Some(valid.with_context(|| format!("{name} is {value:?}, which is no user or group: {advice}"))?))
    };
    let uid = number("SUDO_UID")?.context("SUDO_UID is not set")?;
    let gid = number("SUDO_GID")?;
    if let Some(account) = Account::numbered(uid, gid)? {
        return Ok(account);
    }
    let stranger = Account::stranger(uid, gid);
    let given = |name: &str| variable(name).filter(|value| !value.is_empty());
    Ok(Account {
        name: given("SUDO_USER").unwrap_or(stranger.name),
        home: given("SUDO_HOME").unwrap_or(stranger.home),
        ..stranger
    })
}

/// A user or group id; `-1` in any spelling is none.
fn parse_id(text: &str) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| digits && *id != NOBODY_AT_ALL)
}

impl Account {
    fn named(user: &str) -> Result<Self> {
        // As chown(1) does: a name that looks like a number is a name first.
        let known = User::from_name(user).with_context(|| format!("cannot look up user {user}"))?;
        if let Some(known) = known {
            return Self::known(&known, None);
        }
        let (uid, gid) = match user.split_once(':') {
            Some((uid, gid)) => (parse_id(uid), Some(parse_id(gid))),
            None => (parse_id(user), None),
        };
        let (Some(uid), Some(gid)) = (uid, gid.map_or(Some(None), |gid| gid.map(Some))) else {
            bail!("there is no user {user:?}: --user takes a name, a number, or UID:GID")
        };
        Ok(Self::numbered(uid, gid)?.unwrap_or_else(|| Self::stranger(uid, gid)))
    }

    fn numbered(uid: u32, gid: Option<u32>) -> Result<Option<Self>> {
        User::from_uid(Uid::from_raw(uid))
            .with_context(|| format!("cannot look up user {uid}"))?
            .map(|user| Self::known(&user, gid))
            .transpose()
    }

    /// A number without an entry in the user database has the group of the same number unless another one
    /// is given, and no others: never root's.
    fn stranger(uid: u32, gid: Option<u32>) -> Self {
        let gid = gid.unwrap_or(uid);
        let name = uid.to_string().into();
        Self { uid, gid, groups: vec![gid], name, home: "/".into(), shell: USUAL_SHELL.into() }
    }

    fn known(user: &User, gid: Option<u32>) -> Result<Self> {
        let gid = gid.unwrap_or(user.gid.as_raw());
        let name = CString::new(user.name.as_str()).context("a user name with a zero byte")?;
        let groups = getgrouplist(&name, Gid::from_raw(gid))
            .with_context(|| format!("cannot look up the groups of user {}", user.name))?;
        // passwd(5): an empty one is the usual one.
        let shell = if user.shell.as_os_str().is_empty() { USUAL_SHELL.as_ref() } else { &*user.shell };
        Ok(Self {
            uid: user.uid.as_raw(),
            gid,
            groups: groups.into_iter().map(Gid::as_raw).collect(),
            name: OsStr::new(&user.name).to_owned(),
            home: user.dir.clone().into_os_string(),
            shell: shell.as_os_str().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(content: &'static [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
        |name| content.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).into())
    }

    fn environment(identity: &Identity, inherited: &[&str]) -> Vec<String> {
        let inherited = inherited.iter().map(Into::into).collect();
        identity.environment(inherited).into_iter().map(|entry| entry.into_string().unwrap()).collect()
    }

    #[test]
    fn without_sudo_nothing_is_touched() {
        for effective in [0, 1000] {
            let identity = Identity::of(None, effective, variables(&[])).unwrap();
            assert_eq!(identity, Identity { other: None, owner: None });
            let inherited = ["HOME=/x", "SUDO_USER=y", "odd", "A=1", "A=2"];
            assert_eq!(environment(&identity, &inherited), inherited);
        }
    }

    #[test]
    fn who_is_not_root_is_not_under_sudo() {
        let identity = Identity::of(None, 1000, variables(&[("SUDO_UID", "4242"), ("SUDO_GID", "1")]));
        assert_eq!(identity.unwrap(), Identity { other: None, owner: None });
    }

    #[test]
    fn under_sudo_the_command_and_the_files_are_the_callers() {
        let sudo = variables(&[
            ("SUDO_UID", "424242"),
            ("SUDO_GID", "4343"),
            ("SUDO_USER", "x"),
            ("SUDO_HOME", "/h"),
        ]);
        let identity = Identity::of(None, 0, &sudo).unwrap();
        assert_eq!(identity.owner(), Some((424_242, 4_343)));
        assert_eq!(identity.uid(), 424_242);
        assert_eq!(identity.other.as_ref().unwrap().groups, [4_343]);
        let inherited =
            ["HOME=/root", "SUDO_UID=424242", "SUDO_ASKPASS=/a", "HOMES=1", "USER=root", "PATH=/bin"];
        assert_eq!(
            environment(&identity, &inherited),
            ["SUDO_ASKPASS=/a", "HOMES=1", "PATH=/bin", "HOME=/h", "USER=x", "LOGNAME=x", "SHELL=/bin/sh"]
        );
        let asked = Identity::of(Some("root"), 0, &sudo).unwrap();
        assert_eq!((asked.uid(), asked.owner()), (0, Some((424_242, 4_343))), "root when asked");
    }

    #[test]
    fn an_id_that_would_leave_root_as_it_is_is_refused() {
        for id in ["4294967295", "-1", "+5", "", " 5", "5x", "99999999999"] {
            assert_eq!(parse_id(id), None, "{id:?}");
            assert!(Account::named(id).is_err(), "{id:?}");
            assert!(Account::named(&format!("5:{id}")).is_err(), "{id:?}");
        }
        assert_eq!(parse_id("4294967294"), Some(4_294_967_294));
        for (uid, gid) in [("4294967295", "5"), ("5", "4294967295"), ("", "5"), ("root", "5")] {
            let lie = |name: &str| match name {
                "SUDO_UID" => Some(uid.into()),
                "SUDO_GID" => Some(gid.into()),
                _ => None,
            };
            let error = Identity::of(None, 0, lie).unwrap_err().to_string();
            assert!(error.contains("--user"), "{error}");
            assert_eq!(Identity::of(Some("424242"), 0, lie).unwrap().uid(), 424_242, "--user helps");
        }
    }

    #[test]
    fn another_user_takes_root_and_oneself_does_not() {
        let error = Identity::of(Some("root"), 1000, variables(&[])).unwrap_err().to_string();
        assert!(error.contains("only root") && error.contains("sudo"), "{error}");
        assert_eq!(Identity::of(Some("424242"), 424_242, variables(&[])).unwrap().other, None);
        assert!(Identity::of(Some("424242:0"), 424_242, variables(&[])).is_err());
        assert_eq!(Identity::of(Some("root"), 0, variables(&[])).unwrap().other, None);
    }

    #[test]
    fn a_number_without_an_account_is_given_no_group_of_root() {
        let account = Account::named("424242").unwrap();
        assert_eq!((account.gid, account.groups.as_slice()), (424_242, [424_242].as_slice()));
        assert_eq!(account.home, "/");
        let account = Account::named("424242:100").unwrap();
        assert_eq!((account.gid, account.groups.as_slice()), (100, [100].as_slice()));
    }
}
