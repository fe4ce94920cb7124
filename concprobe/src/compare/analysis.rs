//! From trials to answers: which pairs there are, and what the statistics say of them. Pure.

use fastrand::Rng;

use crate::{
    observation::compare::{
        Answer, Arm, By, Doubt, Effect, Method, Outcome, PartsOfOp, Question, Ratio, Summary, Trial,
    },
    statistics::{self, Resampling, rank_sum, signed_rank},
};

/// How sure the bootstrap's intervals are.
const CONFIDENCE: f64 = 0.95;

/// The trials of one question, as numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Samples {
    /// First and second side of each pair; without pairs, each side by itself.
    pub(super) a: Vec<f64>,
    /// The second side.
    pub(super) b: Vec<f64>,
    /// Pairs of the first side with itself.
    pub(super) same: Vec<(f64, f64)>,
    /// `a` and `b` are pairs.
    pub(super) paired: bool,
}

impl Samples {
    /// The pairs of rounds that have both sides.
    pub(super) fn pairs(trials: &[Trial], figure: impl Fn(&Trial) -> Option<u64>) -> Self {
        let mut samples = Self { paired: true, ..Self::default() };
        for round in rounds(trials) {
            let of = |arm: Arm| round.iter().find(|trial| trial.arm == arm).and_then(|trial| figure(trial));
            let number = |value: u64| value.max(1) as f64;
            if let Some((a, b)) = of(Arm::A).zip(of(Arm::B)) {
                samples.a.push(number(a));
                samples.b.push(number(b));
            }
            if let Some((a, same)) = of(Arm::A).zip(of(Arm::Same)) {
                samples.same.push((number(a), number(same)));
            }
        }
        samples
    }

    /// Each side by itself.
    pub(super) fn apart(trials: &[Trial], figure: impl Fn(&Trial) -> Option<u64>) -> Self {
        let of = |arm: Arm| {
            let trials = trials.iter().filter(|trial| trial.arm == arm);
            trials.filter_map(&figure).map(|value| value.max(1) as f64).collect()
        };
        Self { a: of(Arm::A), b: of(Arm::B), same: Vec::new(), paired: false }
    }

    /// Logarithms of the ratios, second by first: of each pair, or of everything with everything.
    fn differences(&self) -> Vec<f64> {
        if self.paired {
            return self.a.iter().zip(&self.b).map(|(a, b)| (b / a).ln()).collect();
        }
        self.a.iter().flat_map(|a| self.b.iter().map(move |b| (b / a).ln())).collect()
    }

    /// The same of the first side with itself.
    fn same_differences(&self) -> Vec<f64> {
        self.same.iter().map(|(a, same)| (same / a).ln()).collect()
    }

    fn count(&self) -> usize {
        self.a.len().min(self.b.len())
    }

    fn p_value(&self) -> f64 {
        if self.paired { signed_rank(&self.differences()) } else { rank_sum(&self.a, &self.b) }
    }

    /// The least that so many trials can have.
    fn least_p(&self) -> f64 {
        if self.paired {
            statistics::least_p(self.count())
        } else {
            let apart =
                |count: usize, from: u32| -> Vec<f64> { (from..).take(count).map(f64::from).collect() };
            rank_sum(&apart(self.a.len(), 0), &apart(self.b.len(), 1 << 20))
        }
    }
}

/// The trials by round, in the order of the rounds.
fn rounds(trials: &[Trial]) -> Vec<Vec<&Trial>> {
    let mut rounds: std::collections::BTreeMap<u64, Vec<&Trial>> = std::collections::BTreeMap::new();
    for trial in trials {
        rounds.entry(trial.round).or_default().push(trial);
    }
    rounds.into_values().collect()
}

/// The p-value of the pairs so far.
pub(super) fn p_value(samples: &Samples) -> f64 {
    samples.p_value()
}

/// Which side takes less at `level`, or why that cannot be told.
pub(super) fn outcome(samples: &Samples, level: f64, method: &Method) -> Result<Outcome, Doubt> {
    let effect = middle(samples);
    let floor = statistics::median(&samples.same_differences());
    match doubt(samples, level, effect, floor, method.smallest) {
        Some(doubt) => Err(doubt),
        None if effect > 0.0 => Ok(Outcome::AFaster),
        None => Ok(Outcome::BFaster),
    }
}

/// The answer to one question, at `level`.
pub(super) fn question(samples: &Samples, level: f64, method: &Method) -> Question {
    let count = samples.count();
    let outcome = outcome(samples, level, method);
    Question {
        outcome: outcome.unwrap_or(Outcome::CannotTell),
        doubt: outcome.err(),
        pairs: count as u64,
        p_value: (count > 0).then(|| samples.p_value()),
        level,
        ratio_of_minima: ratio(least(&samples.a), least(&samples.b)),
        ratio_of_medians: ratio_of_medians(samples, method),
        ratio_in_pairs: in_pairs(samples, level),
        reversal: statistics::reversal(&samples.a, &samples.b, middle(samples) > 0.0),
    }
}

fn doubt(samples: &Samples, level: f64, effect: f64, floor: Option<f64>, smallest: f64) -> Option<Doubt> {
    if samples.count() == 0 || samples.least_p() > level {
        Some(Doubt::TooFew)
    } else if samples.p_value() > level {
        Some(Doubt::Noise)
    } else if effect.abs() < (1.0 + smallest).ln() {
        Some(Doubt::Small)
    } else if floor.is_some_and(|floor| floor.abs() >= effect.abs()) {
        Some(Doubt::Floor)
    } else {
        None
    }
}

/// The middle of the logarithms of the ratios.
fn middle(samples: &Samples) -> f64 {
    let differences = samples.differences();
    let middle = if samples.paired {
        // The interval is not wanted here, whatever the level.
        statistics::location(&differences, 1.0).map(|location| location.estimate)
    } else {
        statistics::median(&differences)
    };
    middle.unwrap_or(0.0)
}

fn in_pairs(samples: &Samples, level: f64) -> Option<Ratio> {
    samples.paired.then(|| location(&samples.differences(), level)).flatten()
}

fn location(differences: &[f64], level: f64) -> Option<Ratio> {
    let location = statistics::location(differences, level)?;
    Some(Ratio {
        ratio: location.estimate.exp(),
        interval: location.interval.map(|(low, high)| (low.exp(), high.exp())),
        confidence: 1.0 - level,
    })
}

fn ratio_of_medians(samples: &Samples, method: &Method) -> Option<Ratio> {
    let resampling = if samples.paired { Resampling::Pairs } else { Resampling::Sides };
    // The same trials have the same interval, whenever they are looked at.
    let mut random = Rng::with_seed(method.seed);
    Some(Ratio {
        ratio: ratio(statistics::median(&samples.a), statistics::median(&samples.b))?,
        interval: statistics::ratio_of_medians(&samples.a, &samples.b, resampling, CONFIDENCE, &mut random),
        confidence: CONFIDENCE,
    })
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().min_by(f64::total_cmp)
}

fn ratio(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| b / a).filter(|ratio| ratio.is_finite())
}

/// The answer to the question of the comparison.
pub(super) fn answer(samples: &Samples, level: f64, method: &Method) -> Answer {
    let question = question(samples, level, method);
    let same = samples.same_differences();
    Answer {
        same: (!same.is_empty()).then(|| location(&same, level)).flatten(),
        same_p_value: (!same.is_empty()).then(|| signed_rank(&same)),
        noise: noise(samples),
        more_pairs: more_pairs(samples, &question, level, method),
        question,
    }
}

/// Within how many times of each other 95 % of two single runs of the same side lie, among those that there
/// are: without an assumption about their distribution.
fn noise(samples: &Samples) -> Option<f64> {
    let of_itself = samples.same_differences();
    let differences: Vec<f64> = if !of_itself.is_empty() {
        of_itself
    } else if samples.paired {
        // Without A against itself, what varies between pairs beside the effect.
        let effect = middle(samples);
        let around = |difference: &f64| difference - effect;
        (samples.count() > 1).then(|| samples.differences().iter().map(around).collect())?
    } else {
        let pairs = samples.a.iter().enumerate();
        pairs
            .flat_map(|(index, one)| samples.a[index + 1..].iter().map(move |other| (other / one).ln()))
            .collect()
    };
    let sizes: Vec<f64> = differences.iter().map(|difference| difference.abs()).collect();
    statistics::quantile(&sizes, 0.95).map(f64::exp)
}

/// About how many more pairs would tell; `None` where no number would, or nothing says how many.
fn more_pairs(samples: &Samples, question: &Question, level: f64, method: &Method) -> Option<u64> {
    let effect = middle(samples);
    if !samples.paired || effect.abs() < (1.0 + method.smallest).ln() {
        return None;
    }
    let needed = match question.doubt? {
        Doubt::TooFew => {
            let spread = statistics::spread(&samples.differences()).unwrap_or(0.0);
            statistics::pairs_needed(effect, spread, level)?.max(statistics::FIRST_LOOK as u64)
        }
        Doubt::Noise => statistics::pairs_for(question.pairs, question.p_value?, level)?,
        Doubt::Small | Doubt::Floor | Doubt::OneRun => return None,
    };
    Some(needed.saturating_sub(question.pairs).max(1))
}

/// The trials of a side together.
pub(super) fn summary(values: &[f64]) -> Option<Summary> {
    #[expect(clippy::cast_sign_loss, reason = "times are not negative")]
    let at = |part: f64| statistics::quantile(values, part).map(|value| value.round() as u64);
    Some(Summary {
        trials: values.len() as u64,
        min_ps: at(0.0)?,
        p25_ps: at(0.25)?,
        median_ps: at(0.5)?,
        p75_ps: at(0.75)?,
        max_ps: at(1.0)?,
    })
}

fn figure(trial: &Trial, by: By) -> f64 {
    trial.figure(by).unwrap_or(0).max(1) as f64
}

/// How many times longer the second of a pair takes for being second.
pub(super) fn order_effect(trials: &[Trial], by: By) -> Option<Effect> {
    let (mut a_first, mut b_first) = (Vec::new(), Vec::new());
    for round in rounds(trials) {
        let of = |arm: Arm| round.iter().find(|trial| trial.arm == arm);
        let Some((a, b)) = of(Arm::A).zip(of(Arm::B)) else { continue };
        let difference = (figure(b, by) / figure(a, by)).ln();
        if a.began_ns < b.began_ns { &mut a_first } else { &mut b_first }.push(difference);
    }
    if a_first.len().min(b_first.len()) < 3 {
        return None;
    }
    // Being second adds to the difference where A is first, and takes away from it where B is.
    let twice = statistics::median(&a_first)? - statistics::median(&b_first)?;
    Some(Effect { ratio: (twice / 2.0).exp(), p_value: rank_sum(&a_first, &b_first) })
}

/// How many times longer the last trials take than the first.
pub(super) fn drift(trials: &[Trial], by: By) -> Option<Effect> {
    let logarithm = |trial: &Trial| figure(trial, by).ln();
    let side = |second: bool| -> Vec<f64> {
        trials.iter().filter(|trial| (trial.arm == Arm::B) == second).map(logarithm).collect()
    };
    let (a, b) = (statistics::median(&side(false))?, statistics::median(&side(true))?);
    let mut ordered: Vec<&Trial> = trials.iter().collect();
    ordered.sort_by_key(|trial| trial.began_ns);
    let relative = |trial: &&Trial| logarithm(trial) - if trial.arm == Arm::B { b } else { a };
    let values: Vec<f64> = ordered.iter().map(relative).collect();
    let trend = statistics::trend(&values)?;
    Some(Effect { ratio: trend.rise.exp(), p_value: trend.p_value })
}

/// The medians of the parts, of either side.
pub(super) fn parts(trials: &[Trial]) -> Option<[PartsOfOp; 2]> {
    let side = |arm: Arm| {
        let parts: Vec<PartsOfOp> =
            trials.iter().filter(|trial| trial.arm == arm).filter_map(|trial| trial.parts).collect();
        let middle = |part: fn(&PartsOfOp) -> Option<u64>| -> Option<u64> {
            let values: Vec<f64> = parts
                .iter()
                .map(part)
                .collect::<Option<Vec<u64>>>()?
                .into_iter()
                .map(|value| value as f64)
                .collect();
            #[expect(clippy::cast_sign_loss, reason = "times are not negative")]
            statistics::median(&values).map(|value| value.round() as u64)
        };
        (!parts.is_empty()).then(|| PartsOfOp {
            on_cpu_ps: middle(|parts| parts.on_cpu_ps),
            user_ps: middle(|parts| parts.user_ps),
            kernel_ps: middle(|parts| parts.kernel_ps),
            blocked_ps: middle(|parts| parts.blocked_ps),
            run_queue_ps: middle(|parts| parts.run_queue_ps),
            creation_ps: middle(|parts| parts.creation_ps),
        })
    };
    Some([side(Arm::A)?, side(Arm::B)?])
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;
