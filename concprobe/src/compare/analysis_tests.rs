//! Synthetic samples whose answer is known: shifted, heavy-tailed, bimodal, drifting, biased by order.

use super::*;
use crate::{observation::compare::Order, statistics::level};

/// The level of a comparison of at most 40 pairs: five looks.
const LEVEL: f64 = 0.004;

fn method() -> Method {
    Method {
        by: By::Wall,
        order: Order::Random,
        seed: 1,
        runs: 40,
        max_time_ns: u64::MAX,
        same_arm: true,
        smallest: 0.005,
        level: 0.02,
        looks: vec![9, 13, 19, 28, 40],
        warmup_runs: 0,
    }
}

/// Trials of rounds in random order; `figure` gives the picoseconds of the trial with that place in the
/// whole sequence.
fn rounds_of(count: u64, random: &mut Rng, mut figure: impl FnMut(Arm, u64, &mut Rng) -> f64) -> Vec<Trial> {
    let mut trials = Vec::new();
    for round in 0..count {
        for arm in crate::compare::order::arms(Order::Random, round, true, random) {
            let place = trials.len() as u64;
            #[expect(clippy::cast_sign_loss, reason = "times are not negative")]
            let wall_ps = figure(arm, place, random).round() as u64;
            trials.push(Trial {
                round,
                arm,
                began_ns: place,
                wall_ps,
                batch_ps: None,
                p99_ps: None,
                parts: None,
            });
        }
    }
    trials
}

fn pairs_of(trials: &[Trial]) -> Samples {
    Samples::pairs(trials, |trial| Some(trial.wall_ps))
}

/// Close to a normal value with the mean 0 and the standard deviation 1: twelve uniform ones.
fn normal(random: &mut Rng) -> f64 {
    (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
}

/// A multiplicative noise that is now and then as large as one likes: the ratio of two uniform values has no
/// mean.
fn heavy_tailed(random: &mut Rng) -> f64 {
    1.0 + 0.05 * (random.f64() / (random.f64() + 1e-6))
}

/// Only looks decide: what the comparison says of trials that could go on for ever.
fn decided(trials: &[Trial]) -> Outcome {
    for look in method().looks {
        let seen: Vec<Trial> = trials.iter().filter(|trial| trial.round < look).cloned().collect();
        if let Ok(outcome) = outcome(&pairs_of(&seen), LEVEL, &method()) {
            return outcome;
        }
    }
    Outcome::CannotTell
}

#[test]
fn the_level_is_shared_out() {
    assert_eq!(level(40), LEVEL);
}

#[test]
fn a_written_out_shift_has_the_figures_of_the_closed_form() {
    // B is A times 1.25 in every pair; of 9 pairs that agree, 2 in 512 are as extreme.
    let figures: Vec<u64> = (0..9).map(|round| 1_000 + 40 * round).collect();
    let trials: Vec<Trial> = (0..27_u64)
        .map(|place| {
            let (round, arm) = (place / 3, [Arm::A, Arm::Same, Arm::B][place as usize % 3]);
            let base = figures[round as usize];
            let wall_ps = if arm == Arm::B { base * 5 / 4 } else { base };
            Trial { round, arm, began_ns: place, wall_ps, batch_ps: None, p99_ps: None, parts: None }
        })
        .collect();
    let answer = answer(&pairs_of(&trials), LEVEL, &method());
    let found = answer.question;
    assert_eq!((found.outcome, found.doubt, found.pairs), (Outcome::AFaster, None, 9));
    assert_eq!(found.p_value, Some(2.0 / 512.0));
    assert_eq!(found.ratio_of_minima, Some(1.25));
    let medians = found.ratio_of_medians.unwrap();
    assert_eq!((medians.ratio, medians.interval), (1.25, Some((1.25, 1.25))));
    let pairs = found.ratio_in_pairs.unwrap();
    assert!((pairs.ratio - 1.25).abs() < 1e-9 && pairs.interval.is_some());
    // A: 1000 … 1320 by 40; B: 1250 … 1650 by 50. 1280 exceeds one value of B, 1320 two: 3 of 81.
    assert_eq!(found.reversal, Some(3.0 / 81.0));
    assert_eq!(answer.same.unwrap().ratio, 1.0);
    assert_eq!(answer.noise, Some(1.0));
    assert_eq!(answer.more_pairs, None);
}

#[test]
fn equals_are_called_different_in_at_most_one_of_fifty() {
    // 400 comparisons with five looks each, of a noise without a mean, with a drift and an order bias.
    let mut random = Rng::with_seed(11);
    let mut different = 0;
    for _ in 0..400 {
        let trials = rounds_of(40, &mut random, |_, place, random| {
            let biased = 1.0 + 0.03 * (place % 3) as f64;
            1e6 * biased * (1.0 + 0.005 * place as f64) * heavy_tailed(random)
        });
        different += i32::from(decided(&trials) != Outcome::CannotTell);
    }
    // Binomial(400, 0.02): 8 with a standard deviation of 2.8.
    assert!(different <= 13, "{different} of 400");
}

#[test]
fn a_shift_is_found_in_a_noise_without_a_mean() {
    let mut random = Rng::with_seed(12);
    let trials = rounds_of(40, &mut random, |arm, _, random| {
        1e6 * if arm == Arm::B { 0.8 } else { 1.0 } * heavy_tailed(random)
    });
    assert_eq!(decided(&trials), Outcome::BFaster);
    let ratio = question(&pairs_of(&trials), LEVEL, &method()).ratio_in_pairs.unwrap();
    let (low, high) = ratio.interval.unwrap();
    assert!(low < 0.8 && 0.8 < high, "{ratio:?}");
}

#[test]
fn five_percent_in_a_noise_of_two_is_found_and_two_tenths_are_not() {
    let mut random = Rng::with_seed(13);
    let mut count = |slower: f64| {
        let mut found = 0;
        for _ in 0..40 {
            let trials = rounds_of(40, &mut random, |arm, _, random| {
                1e6 * if arm == Arm::B { slower } else { 1.0 } * (1.0 + 0.02 * normal(random))
            });
            found += match decided(&trials) {
                Outcome::AFaster => 1,
                Outcome::BFaster => -100,
                Outcome::CannotTell => 0,
            };
        }
        found
    };
    assert!(count(1.05) >= 38);
    assert!(count(1.002) <= 4);
}

#[test]
fn a_difference_below_what_is_called_one_is_not_called_one_however_sure() {
    let mut random = Rng::with_seed(14);
    let trials = rounds_of(40, &mut random, |arm, _, random| {
        1e9 * if arm == Arm::B { 1.002 } else { 1.0 } * (1.0 + 0.0001 * normal(random))
    });
    let found = answer(&pairs_of(&trials), LEVEL, &method());
    assert!(found.question.p_value.unwrap() < 1e-9);
    assert_eq!((found.question.outcome, found.question.doubt), (Outcome::CannotTell, Some(Doubt::Small)));
    assert_eq!(found.more_pairs, None, "no number of pairs would do");
}

#[test]
fn a_bimodal_side_reverses_as_often_as_its_slow_mode_comes() {
    // A is 10 or, in every tenth round, 100; B is 20: a single run each says the opposite in 4 of 40 rounds.
    let trials = rounds_of(40, &mut Rng::with_seed(15), |arm, place, _| match (arm, (place / 3) % 10) {
        (Arm::B, _) => 20.0,
        (_, 3) => 100.0,
        _ => 10.0,
    });
    let found = question(&pairs_of(&trials), LEVEL, &method());
    assert_eq!(found.outcome, Outcome::AFaster);
    assert_eq!(found.reversal, Some(0.1));
    assert_eq!(found.ratio_of_minima, Some(2.0));
    assert_eq!(found.ratio_of_medians.map(|medians| medians.ratio), Some(2.0));
}

#[test]
fn a_drift_is_measured_and_does_not_pass_for_a_difference() {
    let mut random = Rng::with_seed(16);
    // 1 % a trial, 120 trials: the last takes 1.01^119 = 3.268 times the first.
    let drifting = |random: &mut Rng, faster: f64| {
        rounds_of(40, random, |arm, place, random| {
            let side = if arm == Arm::B { faster } else { 1.0 };
            1e6 * side * 1.01_f64.powf(place as f64) * (1.0 + 0.002 * normal(random))
        })
    };
    let trials = drifting(&mut random, 1.0);
    assert_eq!(decided(&trials), Outcome::CannotTell);
    let found = drift(&trials, By::Wall).unwrap();
    assert!((found.ratio / 3.268 - 1.0).abs() < 0.02 && found.p_value < 1e-9, "{found:?}");
    // And it does not hide one: each side doubles several times over what B saves.
    assert_eq!(decided(&drifting(&mut random, 0.95)), Outcome::BFaster);
    let flat = rounds_of(40, &mut random, |_, _, random| 1e6 * (1.0 + 0.01 * normal(random)));
    assert!((drift(&flat, By::Wall).unwrap().ratio - 1.0).abs() < 0.02);
}

#[test]
fn an_order_bias_is_measured_and_does_not_pass_for_a_difference() {
    let mut random = Rng::with_seed(17);
    // Whoever comes later in its round takes 4 % more by place: among A and B, 4 % or 8 %, in the middle 4 %.
    let trials = rounds_of(40, &mut random, |_, place, random| {
        1e6 * 1.04_f64.powf((place % 3) as f64) * (1.0 + 0.001 * normal(random))
    });
    assert_eq!(decided(&trials), Outcome::CannotTell);
    let found = order_effect(&trials, By::Wall).unwrap();
    assert!((1.035..1.085).contains(&found.ratio) && found.p_value < 1e-6, "{found:?}");
    let without = rounds_of(40, &mut random, |_, _, random| 1e6 * (1.0 + 0.01 * normal(random)));
    assert!((order_effect(&without, By::Wall).unwrap().ratio - 1.0).abs() < 0.02);
}

#[test]
fn one_pair_answers_with_what_it_is_worth() {
    let mut trials = rounds_of(1, &mut Rng::with_seed(18), |arm, _, _| match arm {
        Arm::A => 100.0,
        Arm::Same => 105.0,
        Arm::B => 200.0,
    });
    let found = answer(&pairs_of(&trials), 0.05, &method());
    assert_eq!((found.question.outcome, found.question.doubt), (Outcome::CannotTell, Some(Doubt::TooFew)));
    assert_eq!(found.question.ratio_of_medians.map(|ratio| (ratio.ratio, ratio.interval)), Some((2.0, None)));
    assert!((found.noise.unwrap() - 1.05).abs() < 1e-9);
    assert_eq!(found.more_pairs, Some(8), "nine are the least at which it looks");
    // A round that was cut short is no pair.
    trials.retain(|trial| trial.arm != Arm::B);
    let found = answer(&pairs_of(&trials), 0.05, &method());
    assert_eq!((found.question.pairs, found.question.p_value), (0, None));
}

#[test]
fn the_number_of_further_pairs_is_about_what_it_takes() {
    // 3 % in a noise of 5 % a run, 7.07 % a pair: (2.8782 + 0.8416)² · (7.07 / 3)² / (3 / π) = 80.5 pairs. One
    // estimate is rough, the middle of many is not.
    let mut random = Rng::with_seed(19);
    let mut totals = Vec::new();
    for _ in 0..200 {
        let trials = rounds_of(28, &mut random, |arm, _, random| {
            1e6 * if arm == Arm::B { 1.03 } else { 1.0 } * (1.0 + 0.05 * normal(random))
        });
        let found = answer(&pairs_of(&trials), LEVEL, &method());
        totals.push(match found.question.doubt {
            Some(Doubt::Noise) => found.more_pairs.map_or(f64::INFINITY, |more| more as f64 + 28.0),
            Some(_) => f64::INFINITY,
            None => 0.0,
        });
    }
    let middle = statistics::median(&totals).unwrap();
    assert!((45.0..100.0).contains(&middle), "{middle}");
}

#[test]
fn saved_runs_are_told_apart_by_ranks() {
    let side = |arm: Arm, figures: [u64; 5]| {
        figures.into_iter().enumerate().map(move |(round, wall_ps)| Trial {
            round: round as u64,
            arm,
            began_ns: 0,
            wall_ps,
            batch_ps: None,
            p99_ps: None,
            parts: None,
        })
    };
    let compared = |b: [u64; 5]| {
        let trials: Vec<Trial> = side(Arm::A, [100, 101, 102, 103, 104]).chain(side(Arm::B, b)).collect();
        question(&Samples::apart(&trials, |trial| Some(trial.wall_ps)), 0.05, &method())
    };
    let apart = compared([110, 111, 112, 113, 114]);
    assert_eq!((apart.outcome, apart.p_value), (Outcome::AFaster, Some(2.0 / 252.0)));
    assert_eq!(apart.ratio_in_pairs, None);
    let mixed = compared([99, 101, 102, 103, 105]);
    assert_eq!((mixed.outcome, mixed.doubt), (Outcome::CannotTell, Some(Doubt::Noise)));
}

#[test]
fn the_noise_is_what_separates_runs_of_the_same_side() {
    let e = std::f64::consts::E;
    // A twice as slow the second time, always: the middle is no excuse.
    let paired = |same: &[(f64, f64)]| Samples { a: vec![], b: vec![], same: same.to_vec(), paired: true };
    let found = noise(&paired(&[(1.0, 2.0); 5])).unwrap();
    assert!((found - 2.0).abs() < 1e-9, "{found}");
    // Sizes 0, 1, 1, 2, 4 in logarithms: the 95th percentile lies four fifths from 2 to 4.
    let powers = [(1.0, 1.0), (e, 1.0), (1.0, e), (1.0, e.powi(2)), (e.powi(4), 1.0)];
    assert!((noise(&paired(&powers)).unwrap().ln() - 3.6).abs() < 1e-9);
    // Without A against itself: pairs of 2, 4 and 8 times lie within twice around their middle of 4.
    let without = Samples { a: vec![1.0; 3], b: vec![2.0, 4.0, 8.0], same: vec![], paired: true };
    assert!((noise(&without).unwrap().ln() - 2.0_f64.ln()).abs() < 1e-9);
    // Apart: 1 and 3 are all there is.
    let apart = Samples { a: vec![1.0, 3.0], b: vec![9.0], same: vec![], paired: false };
    assert!((noise(&apart).unwrap() - 3.0).abs() < 1e-9);
    assert_eq!(noise(&Samples::default()), None);
}
