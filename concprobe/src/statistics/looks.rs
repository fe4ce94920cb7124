//! When to look at what there is, and how sure to be then. Who looks often finds chance: the level is shared
//! out over the looks (Bonferroni), so that all together call equals different in at most 2 %, whatever the
//! distribution and however the looks depend on each other.

/// How often equals may be called different, over all looks. Not 5 %: whoever tries it out with a hundred
/// comparisons of equals would then see more than five called different in one experiment of three.
pub const LEVEL: f64 = 0.02;
/// Pairs before the first look: with fewer, not even pairs that all agree reach the level of five looks.
pub const FIRST: usize = 9;
/// Pairs at most: for so many the exact test takes no time worth speaking of.
pub const MOST_PAIRS: u32 = 500;
/// Looks at most: each makes the others stricter.
const MOST: i32 = 5;
/// Next look at so many times the pairs.
const GROWTH: f64 = 1.5;

/// After how many pairs to look, at most `limit`, which is the last.
pub fn looks(limit: usize) -> Vec<usize> {
    if limit <= FIRST {
        return vec![limit];
    }
    let growth = limit as f64 / FIRST as f64;
    let steps = (growth.ln() / GROWTH.ln()).round().clamp(1.0, f64::from(MOST - 1));
    let at = |step: i32| FIRST as f64 * growth.powf(f64::from(step) / steps);
    #[expect(clippy::cast_sign_loss, reason = "numbers of pairs are not negative")]
    (0..MOST).take_while(|step| f64::from(*step) <= steps).map(|step| at(step).round() as usize).collect()
}

/// The level of each look.
pub fn level(limit: usize) -> f64 {
    LEVEL / looks(limit).len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::least_p;

    #[test]
    fn looks_ascend_to_the_limit_and_share_the_level() {
        assert_eq!(looks(40), [9, 13, 19, 28, 40]);
        assert_eq!(looks(500), [9, 25, 67, 183, 500]);
        assert_eq!(looks(13), [9, 13]);
        assert_eq!(looks(10), [9, 10]);
        assert_eq!(looks(9), [9]);
        assert_eq!(looks(1), [1]);
        for limit in 1..=500 {
            let looks = looks(limit);
            assert!(looks.is_sorted_by(|left, right| left < right), "{looks:?}");
            assert_eq!(looks.last(), Some(&limit));
            assert!(level(limit) * looks.len() as f64 <= LEVEL + 1e-12);
        }
    }

    #[test]
    fn pairs_that_all_agree_are_enough_at_every_look() {
        for limit in 7..=500 {
            let first = looks(limit)[0];
            assert!(least_p(first) <= level(limit), "{limit}");
        }
        assert!(least_p(6) > level(6), "no six pairs can tell");
    }
}
