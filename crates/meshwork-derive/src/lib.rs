//! `#[derive(Tree)]`: structs of tensors as arguments, results and loop states of `meshwork`.
//!
//! - A struct with type parameters serves inside and outside a program: `Layer<T>` holds tensors inside and arrays
//!   outside, so `Layer<Tensor>` is a tree with the host type `Layer<Array>`.
//! - For a struct without type parameters, the macro declares a struct of arrays with `Host` appended to its name.
//! - Fields marked `#[tree(skip)]` are not tensors: they are cloned, and each new value traces a new program.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod expand;

use proc_macro::TokenStream;

/// Derives `meshwork::Tree` for a struct; documented there.
#[proc_macro_derive(Tree, attributes(tree))]
pub fn derive_tree(input: TokenStream) -> TokenStream {
    let input = syn::parse_macro_input!(input as syn::DeriveInput);
    expand::tree(&input).unwrap_or_else(syn::Error::into_compile_error).into()
}
