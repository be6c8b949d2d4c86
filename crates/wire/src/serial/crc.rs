//! CRC of 16 bits, most significant bit first.

/// For [`crc16`].
pub(crate) const fn table(polynomial: u16) -> [u16; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let (mut crc, mut bit) = ((i as u16) << 8, 0);
        while bit < 8 {
            crc = (crc << 1) ^ if crc & 0x8000 != 0 { polynomial } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// `crc` is that of what came before, or the initial value.
pub(crate) fn crc16(table: &[u16; 256], crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, &byte| crc << 8 ^ table[usize::from((crc >> 8) as u8 ^ byte)])
}
