//! Where a thread sleeps, and what that cost: found by the call and the futex word in it, summed over threads.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use concprobe_common::{
    block::{Block, KNOWN_SITES, KnownSite, Loss},
    futex::Operation,
    site::{self, CallSum, OVERFLOW, Pair, Site, SiteKey, SiteSum},
};

use crate::{
    maps::{FREE_CALL_SITES, FREE_SITES, PAIRS, SITE_INDEX, SITES},
    probes::context::Call,
    record::{add_shared, lose, spread},
};

/// `BPF_NOEXIST` of `include/uapi/linux/bpf.h`.
const NOEXIST: u64 = 1;
/// `-EEXIST`.
const EEXIST: i32 = -17;

/// Which of the sites that the thread's block remembers is that of this call.
#[inline(always)]
pub fn of_call(block: *mut Block, call: &Call) -> (usize, *mut KnownSite) {
    // SAFETY: `block` points into the map, and is the running thread's; the index was taken modulo.
    unsafe {
        let key =
            site::key((*block).space, call.number, call.compat, call.futex.is_some(), call.arguments[0]);
        let way = way_of(&key);
        let known = &raw mut (*block).known_sites[way];
        if (*known).site == 0 || (*known).address != key.address || (*known).call != key.call {
            hand_over(known);
            let site = find_or_make(block, &key, call);
            (*known).address = key.address;
            (*known).call = key.call;
            (*known).site = site + 1;
            (*known).sleeps = 0;
        }
        (way, known)
    }
}

/// Adds what the block counted of calls to the site.
///
/// # Safety
/// `known` must point into a block.
#[inline(always)]
unsafe fn hand_over(known: *mut KnownSite) {
    // SAFETY: by the contract above; the slots are enum variants.
    unsafe {
        if (*known).site == 0 {
            return;
        }
        let Some(site) = SITES.get_ptr_mut((*known).site - 1) else { return };
        let mut sum = 0;
        while sum < CallSum::COUNT {
            // Without a branch, each of which doubles the verifier's work.
            add_shared(&raw mut (*site).calls[sum], (*known).calls[sum]);
            (*known).calls[sum] = 0;
            sum += 1;
        }
    }
}

/// Adds what the block of a thread that ends, or begins another address space, counted to the sites.
#[inline(always)]
pub fn hand_all_over(block: *mut Block) {
    let mut way = 0;
    while way < KNOWN_SITES {
        // SAFETY: `block` points into the map.
        unsafe { hand_over(&raw mut (*block).known_sites[way]) };
        way += 1;
    }
}

/// Where the block remembers a site: addresses are aligned, so their low bits tell little.
#[inline(always)]
fn way_of(key: &SiteKey) -> usize {
    // Fibonacci hashing: the upper bits of the product with 2⁶⁴ / φ.
    let hash = (key.address ^ u64::from(key.call)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (hash >> 62) as usize % KNOWN_SITES
}

/// What the thread's block remembers must not outlive its address space.
#[inline(always)]
pub fn forget(block: *mut Block) {
    hand_all_over(block);
    // SAFETY: `block` points into the map, and is the running thread's.
    unsafe {
        (*block).known_sites = [KnownSite::NONE; KNOWN_SITES];
        (*block).site = 0;
        (*block).call_way = 0;
    }
}

#[inline(always)]
fn find_or_make(block: *mut Block, key: &SiteKey, call: &Call) -> u32 {
    if let Some(site) = find(key) {
        return site;
    }
    let mut key = *key;
    let mut free = None;
    if key.call != site::FUTEX {
        free = FREE_CALL_SITES.pop().ok().flatten();
        if free.is_none() {
            // The calls of this process go with those of the others. There are only so many calls: they may take
            // the room of locks.
            key.space = site::ANY_SPACE;
            if let Some(site) = find(&key) {
                return site;
            }
        }
    }
    let pool = if free.is_some() { &FREE_CALL_SITES } else { &FREE_SITES };
    let Some(site) = free.or_else(|| FREE_SITES.pop().ok().flatten()) else {
        lose(Loss::NoSite);
        return OVERFLOW;
    };
    let Some(record) = SITES.get_ptr_mut(site) else { return OVERFLOW };
    // SAFETY: `record` points into the map, and nobody else knows of it yet; so does `block`.
    unsafe {
        (*record).key = key;
        (*record).first_ns = bpf_ktime_get_ns();
        (*record).operation = call.arguments[1] as u32;
        (*record).value = call.arguments[2] as u32;
        (*record).number = call.number;
        (*record).tgid = if key.space == site::ANY_SPACE { 0 } else { (*block).tgid };
    }
    if SITE_INDEX.insert(key, site, NOEXIST).is_ok() {
        return site;
    }
    // Another CPU was faster; or there is no room.
    // SAFETY: as above.
    unsafe { (*record).first_ns = 0 };
    let _ = pool.push(site, 0);
    match find(&key) {
        Some(site) => site,
        None => {
            lose(Loss::NoSite);
            OVERFLOW
        }
    }
}

#[inline(always)]
fn find(key: &SiteKey) -> Option<u32> {
    // SAFETY: values of a preallocated hash are only read, and are four bytes wide: never torn.
    unsafe { SITE_INDEX.get(key) }.copied()
}

/// Notes that a thread sleeps at a site.
#[inline(always)]
pub fn note_thread(site: u32, tid: u32) {
    match PAIRS.insert(Pair { site, tid }, 1, NOEXIST) {
        Ok(()) => add(site, SiteSum::Threads, 1),
        Err(EEXIST) => {} // seen before
        Err(_) => lose(Loss::NoPair),
    }
}

/// Adds to a sum of a site.
#[inline(always)]
pub fn add(site: u32, sum: SiteSum, amount: u64) {
    if let Some(site) = SITES.get_ptr_mut(site) {
        // SAFETY: `site` points into the map, and the slot is an enum variant.
        unsafe { add_shared(&raw mut (*site).sums[sum as usize], amount) };
    }
}

/// How many stacks of those who sleep at a site were copied.
#[inline(always)]
pub fn copies(site: u32) -> u64 {
    // SAFETY: the pointer is into the map, and the slot is an enum variant.
    SITES.get(site).map_or(0, |site| site.sums[SiteSum::Copies as usize])
}

/// Counts an entered futex call at its word; at depth *calls*.
#[inline(always)]
pub fn called(block: *mut Block, call: &Call) {
    let Some(operation) = call.futex else { return };
    let sum = if operation.is_wait() {
        CallSum::Waits
    } else if operation.is_wake() {
        CallSum::Wakes
    } else {
        return;
    };
    let (way, known) = of_call(block, call);
    // SAFETY: both point into the map, and are the running thread's.
    unsafe {
        (*block).call_way = way as u32 + 1;
        (*known).calls[sum as usize] += 1;
    }
}

/// Counts how the futex call in progress ended, where it was counted when it was entered.
#[inline(always)]
pub fn ended(block: *mut Block, way: u32, sum: CallSum) {
    let Some(way) = way.checked_sub(1) else { return };
    // SAFETY: `block` points into the map, and is the running thread's; the index is taken modulo.
    unsafe { (*block).known_sites[way as usize % KNOWN_SITES].calls[sum as usize] += 1 };
}

/// Whether the wait ends by itself after a time: its fourth argument is that time.
#[inline(always)]
pub fn is_limited(call: &Call) -> bool {
    matches!(call.futex, Some(Operation::Wait | Operation::LockPi)) && call.arguments[3] != 0
}

/// Sums a sleep that has ended.
#[inline(always)]
pub fn slept(index: u32, blocked_ns: u64, run_queue_ns: u64) {
    let Some(site) = SITES.get_ptr_mut(index) else { return };
    // SAFETY: `site` points into the map, and the slots are enum variants.
    unsafe {
        let site: *mut Site = site;
        add_shared(&raw mut (*site).sums[SiteSum::BlockedNs as usize], blocked_ns);
        add_shared(&raw mut (*site).sums[SiteSum::RunQueueNs as usize], run_queue_ns);
        spread(&raw mut (*site).blocked, blocked_ns);
        spread(&raw mut (*site).run_queue, run_queue_ns);
    }
}
