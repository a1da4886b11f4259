//! What is around the values.

use super::Fault;

/// Eleven bytes at the beginning of the stream.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Flags of which a reader must know what they mean.
const CRITICAL: u32 = 0xffff_0000;

/// Bytes that are read from their beginning.
pub struct Bytes<'a> {
    rest: &'a [u8],
}

impl<'a> Bytes<'a> {
    pub fn new(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(Fault::Form("a message that ends too early"));
        };
        self.rest = rest;
        Ok(taken)
    }

    pub fn int16(&mut self) -> Result<i16, Fault> {
        Ok(i16::from_be_bytes(fixed(self.take(2)?)?))
    }

    pub fn int32(&mut self) -> Result<i32, Fault> {
        Ok(i32::from_be_bytes(fixed(self.take(4)?)?))
    }

    /// A length and so many bytes; None for NULL.
    pub fn value(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        match self.int32()? {
            -1 => Ok(None),
            length => match usize::try_from(length) {
                Ok(length) => Ok(Some(self.take(length)?)),
                Err(_) => Err(Fault::Form("a negative length")),
            },
        }
    }

    /// What a stream begins with.
    pub fn header(&mut self) -> Result<(), Fault> {
        if self.take(SIGNATURE.len())? != SIGNATURE {
            return Err(Fault::Form("another beginning than that of a binary COPY"));
        }
        if self.int32()? as u32 & CRITICAL != 0 {
            return Err(Fault::Form("a COPY with flags that are not known"));
        }
        let extension = self.int32()?;
        let length =
            usize::try_from(extension).map_err(|_| Fault::Form("a header of negative length"))?;
        self.take(length)?;
        Ok(())
    }
}

pub fn fixed<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes
        .try_into()
        .map_err(|_| Fault::Form("a value of another length than its type has"))
}
