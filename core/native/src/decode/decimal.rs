//! numeric as Arrow's decimals.
//!
//! A numeric is sent as four numbers of 16 bits (how many digits there are, the weight of the first
//! one, the sign, how many decimals are shown), then its digits to the base of 10,000; see
//! `numeric_send` in the server's numeric.c.

use super::Fault;
use super::frame::Bytes;

const NEGATIVE: u16 = 0x4000;
/// Two's complement, the least significant word first.
pub type Wide = [u64; 4];

/// A decimal's number of units in the last place, as a magnitude and a sign.
///
/// None: it is not finite, or has more digits than fit.
fn units(value: &[u8], scale: u32) -> Result<Option<(Wide, bool)>, Fault> {
    let mut bytes = Bytes::new(value);
    let count = bytes.int16()?;
    let weight = bytes.int16()?;
    let sign = bytes.int16()? as u16;
    bytes.int16()?;
    if sign & !NEGATIVE != 0 {
        return Ok(None);
    }
    let count = usize::try_from(count).map_err(|_| Fault::Form("a numeric of negative length"))?;
    let digits = bytes.take(2 * count)?;
    if !bytes.is_empty() {
        return Err(Fault::Form("a numeric that is longer than it says"));
    }
    let mut found = [0; 4];
    for pair in digits.chunks_exact(2) {
        let digit = u16::from_be_bytes([pair[0], pair[1]]);
        if digit >= 10_000 || !multiply(&mut found, 10_000, digit.into()) {
            return Ok(None);
        }
    }
    // The last digit's unit is 10,000 to the power of `weight - count + 1`.
    let mut power = 4 * (i64::from(weight) - count as i64 + 1) + i64::from(scale);
    if found == [0; 4] {
        power = 0;
    }
    while power > 0 {
        let step = power.min(19) as u32;
        if !multiply(&mut found, 10_u64.pow(step), 0) {
            return Ok(None);
        }
        power -= i64::from(step);
    }
    while power < 0 {
        let step = (-power).min(19) as u32;
        if divide(&mut found, 10_u64.pow(step)) != 0 {
            return Ok(None);
        }
        power += i64::from(step);
    }
    Ok(Some((found, sign == NEGATIVE)))
}

/// False where it no longer fits.
fn multiply(number: &mut Wide, by: u64, plus: u64) -> bool {
    let mut carry = u128::from(plus);
    for word in number.iter_mut() {
        let product = u128::from(*word) * u128::from(by) + carry;
        *word = product as u64;
        carry = product >> 64;
    }
    carry == 0
}

/// Returns the remainder.
fn divide(number: &mut Wide, by: u64) -> u64 {
    let mut rest = 0_u128;
    for word in number.iter_mut().rev() {
        let part = rest << 64 | u128::from(*word);
        *word = (part / u128::from(by)) as u64;
        rest = part % u128::from(by);
    }
    rest as u64
}

fn is_below(number: &Wide, limit: &Wide) -> bool {
    number.iter().rev().lt(limit.iter().rev())
}

/// The first number that has more digits than `precision`, which is at most 76.
pub fn limit(precision: u32) -> Wide {
    let mut found = [1, 0, 0, 0];
    for _ in 0..precision {
        multiply(&mut found, 10, 0);
    }
    found
}

/// None: the type does not hold it.
pub fn wide(value: &[u8], scale: u32, limit: &Wide) -> Result<Option<Wide>, Fault> {
    let Some((mut found, negative)) = units(value, scale)? else {
        return Ok(None);
    };
    if !is_below(&found, limit) {
        return Ok(None);
    }
    if negative {
        let mut carry = true;
        for word in found.iter_mut() {
            (*word, carry) = (!*word).overflowing_add(carry.into());
        }
    }
    Ok(Some(found))
}

/// As `wide`, for a precision of 38 at most: nearly all of them have few digits.
pub fn narrow(value: &[u8], scale: u32, limit: &Wide) -> Result<Option<i128>, Fault> {
    if let Some(found) = short(value, scale) {
        return Ok((found.unsigned_abs() < low(limit)).then_some(found));
    }
    Ok(wide(value, scale, limit)?.map(|found| low(&found) as i128))
}

fn low(number: &Wide) -> u128 {
    u128::from(number[1]) << 64 | u128::from(number[0])
}

/// A number of four digits to the base of 10,000 at most, whose decimals all fit the scale.
fn short(value: &[u8], scale: u32) -> Option<i128> {
    let (head, digits) = value.split_first_chunk::<8>()?;
    let count = usize::from(u16::from_be_bytes([head[0], head[1]]));
    if count > 4 || digits.len() != 2 * count {
        return None;
    }
    let weight = i16::from_be_bytes([head[2], head[3]]);
    let sign = u16::from_be_bytes([head[4], head[5]]);
    if sign & !NEGATIVE != 0 {
        return None;
    }
    let mut found = 0_u64;
    for pair in digits.chunks_exact(2) {
        let digit = u16::from_be_bytes([pair[0], pair[1]]);
        if digit >= 10_000 {
            return None;
        }
        found = found * 10_000 + u64::from(digit);
    }
    if found == 0 {
        return Some(0);
    }
    let power = 4 * (i32::from(weight) - count as i32 + 1) + scale as i32;
    let scaled = match power {
        0 => i128::from(found),
        // 10^16 and 10^19 are less than 2^127 together.
        1..=19 => i128::from(found) * i128::from(10_u64.pow(power as u32)),
        -4..=-1 => {
            let by = 10_u64.pow(-power as u32);
            if !found.is_multiple_of(by) {
                return None;
            }
            i128::from(found / by)
        }
        _ => return None,
    };
    Some(if sign == NEGATIVE { -scaled } else { scaled })
}
