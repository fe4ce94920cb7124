//! Which trial comes when.

use fastrand::Rng;

use crate::observation::compare::{Arm, Order};

/// The trials of a round. Random: every order is as likely, so that the two sides of a pair could be
/// exchanged if they were equal. Alternating: there and back, each arm as often early as late.
pub(super) fn arms(order: Order, round: u64, same_arm: bool, random: &mut Rng) -> Vec<Arm> {
    let mut arms = if same_arm { vec![Arm::A, Arm::Same, Arm::B] } else { vec![Arm::A, Arm::B] };
    match order {
        Order::Random => random.shuffle(&mut arms),
        Order::Alternating if !round.is_multiple_of(2) => arms.reverse(),
        Order::Alternating => {}
    }
    arms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_order() {
        let drawn = |seed| {
            let mut random = Rng::with_seed(seed);
            (0..50).map(|round| arms(Order::Random, round, true, &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(7), drawn(7));
        assert_ne!(drawn(7), drawn(8));
    }

    #[test]
    fn each_side_is_first_about_as_often() {
        let mut random = Rng::with_seed(1);
        let first =
            (0..1_000).filter(|round| arms(Order::Random, *round, false, &mut random)[0] == Arm::A).count();
        assert!((400..600).contains(&first), "{first}");
        let alternating = |round| arms(Order::Alternating, round, true, &mut Rng::with_seed(1));
        assert_eq!(alternating(0), [Arm::A, Arm::Same, Arm::B]);
        assert_eq!(alternating(1), [Arm::B, Arm::Same, Arm::A]);
    }
}
