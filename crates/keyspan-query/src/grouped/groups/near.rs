//! Groups of whole numbers that lie close together, as ids do: found by their place in an array, without hashing.

use super::UNKNOWN;

/// Numbers from the least to the greatest one for which there is an array, at most.
const MOST: u64 = 1 << 21;

/// Which group a number has, as far as it was noted.
#[derive(Debug, Default)]
pub(super) struct Near {
    /// The number of the first place.
    first: i64,
    groups: Vec<u32>,
    /// Numbers were too far from each other.
    far: bool,
}

impl Near {
    /// Whether numbers may be looked up here; decided by the first that are asked for.
    pub(super) fn holds(&mut self, numbers: &Option<&[i64]>) -> bool {
        let Some(numbers) = numbers.filter(|_| !self.far) else { return false };
        if self.groups.is_empty()
            && let (Some(least), Some(greatest)) = (numbers.iter().min(), numbers.iter().max())
        {
            let span = greatest.abs_diff(*least);
            self.far = span >= MOST / 2;
            if !self.far {
                // Others may be less by as much.
                self.first = least.saturating_sub(span as i64);
                self.groups = vec![UNKNOWN; (2 * span + 1) as usize];
            }
        }
        !self.far
    }

    fn place(&self, number: i64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok().filter(|place| (*place as u64) < MOST)
    }

    pub(super) fn group(&self, number: i64) -> Option<usize> {
        let group = *self.groups.get(number.wrapping_sub(self.first) as usize)?;
        (group != UNKNOWN).then_some(group as usize)
    }

    /// Keeps the group of a number, if it is not too far away.
    pub(super) fn note(&mut self, number: i64, group: usize) {
        let (Some(place), Ok(group)) = (self.place(number), u32::try_from(group)) else { return };
        if place >= self.groups.len() {
            self.groups.resize((place + 1).next_power_of_two(), UNKNOWN);
        }
        self.groups[place] = group;
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.groups.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_nearby_are_found_and_others_asked_for_elsewhere() {
        let mut near = Near::default();
        assert!(near.holds(&Some(&[1_000, 1_010, 1_005])));
        for (number, group) in [(1_000, 0), (995, 1), (5_000, 2), (989, 3), (i64::MAX, 4), (i64::MIN, 5)] {
            near.note(number, group);
        }
        let found = [1_000, 995, 5_000, 1_001, 989, i64::MAX, i64::MIN].map(|number| near.group(number));
        assert_eq!(found, [Some(0), Some(1), Some(2), None, None, None, None]);
        let mut far = Near::default();
        assert!(!far.holds(&Some(&[0, i64::from(u32::MAX)])) && !far.holds(&Some(&[1, 2])) && !far.holds(&None));
        let mut least = Near::default();
        assert!(least.holds(&Some(&[i64::MIN, i64::MIN + 3])));
        least.note(i64::MIN, 7);
        assert_eq!(least.group(i64::MIN), Some(7));
    }
}
