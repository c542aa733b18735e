//! The type of operands that a kernel's name states.
//!
//! - xmma: `sm80_xmma_gemm_i8f32_i8i32_f32_tn_n_tilesize…`: three words of types, of which the middle one is operand and
//!   accumulator: INT8 operands, accumulated in INT32.
//! - CUTLASS and cuBLAS: `ampere_h16816gemm_…` (FP16 operands and accumulator), `ampere_fp16_s16816gemm_fp16_…` (FP16 operands, FP32
//!   accumulator), `cutlass_tensorop_s8_i16832gemm_s8_…` (INT8), `ampere_sgemm_…` (FP32).
//! - attention: `fmha_v2_flash_attention_fp16_64_128_…`.
//!
//! A name that states nothing of this kind (`_gemm_mha_v2_0x93…`, `__myl_…`, `nvjet_…`) proves nothing.

use crate::inspect::number::NumberType;

/// The type of the operands of a product that the kernel `name` computes.
pub(crate) fn operand(name: &str) -> Option<NumberType> {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    triple(&words).or_else(|| gemm(&words)).or_else(|| attention(&words))
}

/// Whether the name is of a kernel that multiplies matrices.
pub(crate) fn multiplies(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["gemm", "gemv", "fprop", "matmul", "mha", "cublas"].iter().any(|part| name.contains(part))
}

fn triple(words: &[&str]) -> Option<NumberType> {
    words.windows(3).find_map(|three| {
        let [outer, inner, last] = three else { return None };
        let (outer, inner) = (NumberType::of_run(outer)?, NumberType::of_run(inner)?);
        let last = NumberType::of_run(last)?;
        let [operand, accumulator] = inner[..] else { return None };
        let whole = outer.len() == 2 && last.len() == 1;
        // Integers add up in INT32: another pair is a name of another kind.
        let sensible = operand.is_float() != (accumulator == NumberType::Int32);
        (whole && sensible && operand.is_operand()).then_some(operand)
    })
}

fn gemm(words: &[&str]) -> Option<NumberType> {
    let shape = words.iter().find_map(|word| word.strip_suffix("gemm"))?;
    let digits = shape.trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let letters = &shape[..shape.len() - digits.len()];
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let named: Vec<NumberType> =
        words.iter().filter_map(|word| NumberType::of_word(word)).collect();
    let only = |wanted: &[NumberType]| {
        let mut found = named.iter().copied().filter(|number| wanted.contains(number));
        let first = found.next()?;
        found.all(|other| other == first).then_some(first)
    };
    match letters {
        "h" => Some(NumberType::Fp16),
        "i" => only(&[NumberType::Int8, NumberType::Int4]),
        "s" => only(&[NumberType::Fp16, NumberType::Bf16, NumberType::Tf32, NumberType::Fp8])
            .or_else(|| digits.is_empty().then_some(NumberType::Fp32)),
        "d" => Some(NumberType::Fp64),
        _ => None,
    }
}

fn attention(words: &[&str]) -> Option<NumberType> {
    if !words.iter().any(|word| ["fmha", "mha"].contains(word)) {
        return None;
    }
    let mut named = words
        .iter()
        .filter_map(|word| NumberType::of_word(word))
        // The accumulator's type is there too.
        .filter(|number| number.is_operand() && *number != NumberType::Fp32);
    let first = named.next()?;
    named.all(|other| other == first).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_state_their_operands() {
        let cases = [
            (
                "sm80_xmma_gemm_i8i8_i8i32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x32_by_fusion_tactic",
                Some(NumberType::Int8),
            ),
            (
                "sm80_xmma_gemm_i8f32_i8i32_f32_tn_n_tilesize128x128x64_stage3_tensor16x8x32_fused",
                Some(NumberType::Int8),
            ),
            ("sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64", Some(NumberType::Fp16)),
            ("sm80_xmma_gemm_f16f16_f16f16_f16_nn_n_tilesize64x64x64", Some(NumberType::Fp16)),
            ("sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32", Some(NumberType::Bf16)),
            ("sm80_xmma_gemm_tf32tf32_tf32f32_f32_nt_n_tilesize128x128x16", Some(NumberType::Tf32)),
            ("sm89_xmma_gemm_e4m3e4m3_e4m3f32_f32_tn_n_tilesize128x128x64", Some(NumberType::Fp8)),
            ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8", Some(NumberType::Fp32)),
            ("sm50_xmma_cublas_gemvx_f16f16_f16f32_f32_tn", Some(NumberType::Fp16)),
            ("ampere_h16816gemm_256x128_ldg8_nn_v1", Some(NumberType::Fp16)),
            ("ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_nn", Some(NumberType::Fp16)),
            ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_tn", Some(NumberType::Bf16)),
            ("ampere_tf32_s1688gemm_fp32_128x128", Some(NumberType::Tf32)),
            ("cutlass_tensorop_s8_i16832gemm_s8_256x128_64x2_tn_align16", Some(NumberType::Int8)),
            ("ampere_int8_i16832gemm_int8_128x128_ldg16_stages_64x4_tn", Some(NumberType::Int8)),
            ("ampere_sgemm_32x32_sliced1x4_nn", Some(NumberType::Fp32)),
            ("volta_hgemm_64x64_tn", Some(NumberType::Fp16)),
            (
                "fmha_v2_flash_attention_fp16_fp32_64_128_S_q_paged_kv_64_sm80",
                Some(NumberType::Fp16),
            ),
            ("fmha_v2_int8_128_64_sm80_kernel", Some(NumberType::Int8)),
            // They do not say.
            ("ampere_i16832gemm_128x128", None),
            ("ampere_s16816gemm_128x128", None),
            ("_gemm_mha_v2_0x938a4e6b3c0a5e3c", None),
            ("__myl_AddCasMeaMulAddSqrDivMul_0x12ab", None),
            ("nvjet_hsh_128x64_64x7_2x1_v_bz_TNN", None),
            ("sm80_xmma_gemm_i8i8_i8f16_f32", None),
            ("", None),
        ];
        for (name, number) in cases {
            assert_eq!(operand(name), number, "{name}");
        }
    }
}
