//! What a name of the graph stands for, and how its numbers are rearranged.

use crate::steps::Span;
use std::rc::Rc;

/// A tensor whose shape is known.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) shape: Vec<usize>,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// From this place of the arena on; a constant one is there before the first run.
    Floats { start: usize, is_constant: bool },
    /// Shapes, axes and indices; always known.
    Ints(Rc<[i64]>),
}

impl Value {
    pub(super) fn floats(shape: Vec<usize>, start: usize, is_constant: bool) -> Self {
        Self { shape, content: Content::Floats { start, is_constant } }
    }

    pub(super) fn len(&self) -> usize {
        self.shape.iter().product()
    }

    pub(super) fn is_constant(&self) -> bool {
        !matches!(self.content, Content::Floats { is_constant: false, .. })
    }

    /// Where its floats are; none if it has whole numbers.
    pub(super) fn span(&self) -> Option<Span> {
        match self.content {
            Content::Floats { start, .. } => Some(Span { start, len: self.len() }),
            Content::Ints(_) => None,
        }
    }
}

/// Number of a dimension, counted from the end if negative.
pub(super) fn axis_of(axis: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    (0..rank).contains(&axis).then_some(usize::try_from(axis).ok()?)
}

/// The most dimensions of a tensor.
pub(super) const RANK: usize = 8;

/// How many numbers such a tensor has; none if it has none, or more than any policy's.
pub(super) fn elements(shape: &[usize]) -> Option<usize> {
    const MOST: usize = 1 << 24;
    let count = shape.iter().try_fold(1_usize, |count, &size| count.checked_mul(size))?;
    ((1..=MOST).contains(&count) && shape.len() <= RANK).then_some(count)
}

/// Whether whole numbers may have this shape: unlike floats, there may be none of them.
pub(super) fn is_sound(shape: &[usize]) -> bool {
    shape == [0] || elements(shape).is_some()
}

/// The shape of two that are stretched to fit each other.
pub(super) fn broadcast(left: &[usize], right: &[usize]) -> Option<Vec<usize>> {
    let rank = left.len().max(right.len());
    let size =
        |shape: &[usize], axis: usize| (axis + shape.len()).checked_sub(rank).map_or(1, |axis| shape[axis]);
    let both = (0..rank).map(|axis| match (size(left, axis), size(right, axis)) {
        (left, right) if left == right => Some(left),
        (1, size) | (size, 1) => Some(size),
        _ => None,
    });
    both.collect()
}

/// Numbers of a tensor in another order: for each dimension of the result, how far apart they are.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) offset: i64,
    pub(super) shape: Vec<usize>,
    pub(super) strides: Vec<i64>,
}

impl View {
    pub(super) fn whole(shape: &[usize]) -> Self {
        let mut strides = vec![1_i64; shape.len()];
        for axis in (1..shape.len()).rev() {
            strides[axis - 1] = strides[axis] * shape[axis] as i64;
        }
        Self { offset: 0, shape: shape.to_vec(), strides }
    }

    /// Stretched to a shape that [`broadcast`] gave.
    pub(super) fn stretched(shape: &[usize], to: &[usize]) -> Self {
        let whole = Self::whole(shape);
        let missing = to.len() - shape.len();
        let stride = |axis: usize| match axis.checked_sub(missing) {
            Some(axis) if shape[axis] != 1 => whole.strides[axis],
            _ => 0,
        };
        Self { offset: 0, strides: (0..to.len()).map(stride).collect(), shape: to.to_vec() }
    }

    /// In another order of dimensions.
    pub(super) fn permuted(&self, order: &[usize]) -> Self {
        let shape = order.iter().map(|&axis| self.shape[axis]).collect();
        Self { offset: self.offset, shape, strides: order.iter().map(|&axis| self.strides[axis]).collect() }
    }

    /// Of one dimension `count` from `first` on, `step` apart.
    pub(super) fn cut(&mut self, axis: usize, first: usize, count: usize, step: i64) {
        self.offset += first as i64 * self.strides[axis];
        self.shape[axis] = count;
        self.strides[axis] *= step;
    }

    /// The places of all its numbers, in their order.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places = vec![self.offset];
        for (&size, &stride) in self.shape.iter().zip(&self.strides) {
            let along = |place: i64| (0..size as i64).map(move |number| place + number * stride);
            places = places.into_iter().flat_map(along).collect();
        }
        places.into_iter().map(|place| place as usize).collect()
    }
}
