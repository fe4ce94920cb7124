//! Whether the machine is virtual, and whether this process is inside a container.

use std::path::Path;

use super::{Environment, file, processor};

pub(super) fn fill(environment: &mut Environment) {
    let dmi = |name: &str| file::text(format!("/sys/class/dmi/id/{name}")).ok();
    let cpuinfo = processor::cpuinfo();
    let flag = cpuinfo.as_deref().is_ok_and(has_hypervisor_flag);
    let signs = Signs {
        flag,
        cpuid_vendor: if flag { cpuid_vendor() } else { None },
        sys_hypervisor: file::text("/sys/hypervisor/type").ok(),
        dmi_vendor: dmi("sys_vendor"),
        dmi_product: dmi("product_name"),
        release: environment.kernel_release.clone().unwrap_or_default(),
    };
    environment.virtualisation = signs.virtualisation();
    if environment.virtualisation.is_none()
        && let Err(reason) = signs.suffice(cpuinfo.as_deref())
    {
        environment.lack(&["virtualisation"], &reason);
    }
    environment.container = container(
        file::text("/run/systemd/container").ok().as_deref(),
        |path| Path::new(path).exists(),
        &file::text("/proc/self/cgroup").unwrap_or_default(),
    );
}

#[derive(Default)]
struct Signs {
    flag: bool,
    cpuid_vendor: Option<String>,
    sys_hypervisor: Option<String>,
    dmi_vendor: Option<String>,
    dmi_product: Option<String>,
    release: String,
}

impl Signs {
    /// Whether a virtual machine would have shown itself: by the flags of x86, else by its product's name.
    fn suffice(&self, cpuinfo: Result<&str, &String>) -> Result<(), String> {
        let has_flags = file::field(cpuinfo.map_err(String::clone)?, "flags").is_some();
        if has_flags || self.dmi_product.is_some() {
            Ok(())
        } else {
            Err("neither processor flags nor DMI tell".to_owned())
        }
    }

    fn virtualisation(&self) -> Option<String> {
        let product = [&self.dmi_vendor, &self.dmi_product]
            .into_iter()
            .flatten()
            .filter(|text| !text.is_empty())
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(" ");
        let kind = if let Some(vendor) = &self.cpuid_vendor {
            hypervisor_name(vendor).to_owned()
        } else if let Some(kind) = self.sys_hypervisor.as_deref().filter(|kind| !kind.is_empty()) {
            kind.to_owned()
        } else if self.release.to_ascii_lowercase().contains("microsoft") {
            "WSL".to_owned()
        } else if self.flag {
            "a hypervisor that does not name itself".to_owned()
        } else if is_virtual_product(&product) {
            return Some(product);
        } else {
            return None;
        };
        Some(if product.is_empty() { kind } else { format!("{kind} ({product})") })
    }
}

/// Whether the first CPU of `/proc/cpuinfo` has the flag that hypervisors set on x86.
fn has_hypervisor_flag(cpuinfo: &str) -> bool {
    file::field(cpuinfo, "flags")
        .is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

/// The twelve letters with which a hypervisor names itself in CPUID leaf 0x4000_0000.
#[cfg(target_arch = "x86_64")]
fn cpuid_vendor() -> Option<String> {
    // SAFETY: every x86-64 processor has CPUID; the leaf is only asked for under the hypervisor flag.
    #[allow(unused_unsafe, reason = "newer compilers made the intrinsic safe")]
    let leaf = unsafe { std::arch::x86_64::__cpuid(0x4000_0000) };
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].into_iter().flat_map(u32::to_le_bytes).collect();
    let vendor: String =
        bytes.into_iter().filter(|byte| (b' '..=b'~').contains(byte)).map(char::from).collect();
    let vendor = vendor.trim();
    (!vendor.is_empty()).then(|| vendor.to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn cpuid_vendor() -> Option<String> {
    None
}

fn hypervisor_name(vendor: &str) -> &str {
    match vendor {
        "KVMKVMKVM" | "Linux KVM Hv" => "KVM",
        "Microsoft Hv" => "Hyper-V",
        "VMwareVMware" => "VMware",
        "XenVMMXenVMM" => "Xen",
        "bhyve bhyve" => "bhyve",
        "TCGTCGTCGTCG" => "QEMU without hardware support",
        "VBoxVBoxVBox" => "VirtualBox",
        "prl hyperv" | "lrpepyh vr" => "Parallels",
        other => other,
    }
}

/// Product names that only virtual machines have; needed where the processor has no such flag (arm64).
fn is_virtual_product(product: &str) -> bool {
    let names =
        ["KVM", "QEMU", "VirtualBox", "VMware", "Virtual Machine", "Google Compute Engine", "HVM domU"];
    names.iter().any(|name| product.contains(name))
}

fn container(systemd: Option<&str>, exists: impl Fn(&str) -> bool, cgroups: &str) -> Option<String> {
    if let Some(kind) = systemd.filter(|kind| !kind.is_empty()) {
        return Some(format!("{kind} (by /run/systemd/container)"));
    }
    for (path, kind) in [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")] {
        if exists(path) {
            return Some(format!("{kind} (by {path})"));
        }
    }
    let kinds = ["kubepods", "docker", "libpod", "containerd", "lxc", "garden"];
    let kind = kinds.iter().find(|kind| cgroups.contains(*kind))?;
    Some(format!("{kind} (by /proc/self/cgroup)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hypervisor_flag_is_a_whole_word_of_the_flags() {
        assert!(has_hypervisor_flag("processor : 0\nflags\t\t: fpu hypervisor lahf_lm\n"));
        assert!(!has_hypervisor_flag("flags : fpu nohypervisor\nmodel name : hypervisor\n"));
        assert!(!has_hypervisor_flag(""));
    }

    #[test]
    fn a_virtual_machine_is_named_by_its_hypervisor_and_its_product() {
        let signs = Signs {
            flag: true,
            cpuid_vendor: Some("KVMKVMKVM".to_owned()),
            dmi_vendor: Some("QEMU".to_owned()),
            dmi_product: Some("Standard PC".to_owned()),
            ..Signs::default()
        };
        assert_eq!(signs.virtualisation().as_deref(), Some("KVM (QEMU Standard PC)"));
        let silent = Signs { flag: true, ..Signs::default() };
        assert_eq!(silent.virtualisation().as_deref(), Some("a hypervisor that does not name itself"));
    }

    #[test]
    fn a_real_machine_is_not_called_virtual() {
        let signs = Signs { dmi_vendor: Some("Dell Inc.".to_owned()), ..Signs::default() };
        assert_eq!(signs.virtualisation(), None);
        assert_eq!(Signs::default().virtualisation(), None);
    }

    #[test]
    fn without_flags_and_product_a_virtual_machine_cannot_be_excluded() {
        let silent = Signs::default();
        assert_eq!(silent.suffice(Ok("flags : fpu\n")), Ok(()));
        assert!(silent.suffice(Ok("Features : fp\n")).is_err());
        assert!(silent.suffice(Err(&"no /proc".to_owned())).is_err());
        let named = Signs { dmi_product: Some("Altra".to_owned()), ..Signs::default() };
        assert_eq!(named.suffice(Ok("Features : fp\n")), Ok(()));
    }

    #[test]
    fn an_arm_machine_is_recognised_by_its_product() {
        let signs = Signs { dmi_product: Some("KVM Virtual Machine".to_owned()), ..Signs::default() };
        assert_eq!(signs.virtualisation().as_deref(), Some("KVM Virtual Machine"));
    }

    #[test]
    fn a_container_is_named_with_what_gave_it_away() {
        let none = |_: &str| false;
        assert_eq!(container(None, none, "0::/user.slice\n"), None);
        assert_eq!(container(Some("lxc"), none, "").as_deref(), Some("lxc (by /run/systemd/container)"));
        let docker = container(Some(""), |path| path == "/.dockerenv", "");
        assert_eq!(docker.as_deref(), Some("docker (by /.dockerenv)"));
        let pod = container(None, none, "0::/kubepods.slice/pod1\n");
        assert_eq!(pod.as_deref(), Some("kubepods (by /proc/self/cgroup)"));
    }
}
