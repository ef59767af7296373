//! From the declaration of a struct to its implementation of `Tree`.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use syn::{Data, DeriveInput, Error, Fields, GenericParam, Ident, Index, Member, Result, Type};

/// A field of the struct.
struct Field<'a> {
    member: Member,
    /// The step of the path to it.
    name: String,
    ty: &'a Type,
    vis: &'a syn::Visibility,
    skip: bool,
}

/// The implementation of `Tree` for `input`, with a host struct if it needs one.
pub fn tree(input: &DeriveInput) -> Result<TokenStream> {
    let fields = fields(input)?;
    if let Some(lifetime) = input.generics.lifetimes().next() {
        return Err(Error::new_spanned(lifetime, "a Tree owns its tensors: it cannot have lifetime parameters"));
    }
    let types: Vec<&Ident> = input.generics.type_params().map(|p| &p.ident).collect();
    let (trees, statics): (Vec<&Ident>, Vec<&Ident>) =
        types.iter().partition(|p| fields.iter().any(|f| !f.skip && mentions(f.ty, p)));
    for field in fields.iter().filter(|f| f.skip) {
        if let Some(p) = trees.iter().find(|p| mentions(field.ty, p)) {
            let message = format!("a skipped field cannot use `{p}`, which other fields use for tensors");
            return Err(Error::new_spanned(field.ty, message));
        }
    }
    let host = if trees.is_empty() { Host::Own } else { Host::Same };
    let declared = match host {
        Host::Own => declare_host(input, &fields),
        Host::Same => quote!(),
    };
    let body = implement(input, &fields, &trees, &statics, host);
    Ok(quote!(#declared #body))
}

/// What the host type is.
#[derive(Clone, Copy)]
enum Host {
    /// The same struct with other parameters.
    Same,
    /// A struct of its own.
    Own,
}

fn fields(input: &DeriveInput) -> Result<Vec<Field<'_>>> {
    let data = match &input.data {
        Data::Struct(data) => data,
        Data::Enum(data) => {
            return Err(Error::new(
                data.enum_token.span,
                "Tree can be derived for structs, not for enums: the variant would have to be known while tracing; use an \
                 Option, or mark the field of this type #[tree(skip)] if it holds no tensors",
            ));
        }
        Data::Union(data) => {
            return Err(Error::new(data.union_token.span, "Tree can be derived for structs, not for unions"));
        }
    };
    let mut out = vec![];
    for (i, field) in data.fields.iter().enumerate() {
        let (member, name) = match &field.ident {
            Some(ident) => (Member::Named(ident.clone()), ident.to_string().trim_start_matches("r#").to_string()),
            None => (Member::Unnamed(Index::from(i)), i.to_string()),
        };
        let mut skip = false;
        for attr in field.attrs.iter().filter(|a| a.path().is_ident("tree")) {
            attr.parse_nested_meta(|meta| {
                if !meta.path.is_ident("skip") {
                    return Err(meta.error("the only option is `skip`, for fields that are not tensors"));
                }
                skip = true;
                Ok(())
            })?;
        }
        out.push(Field { member, name, ty: &field.ty, vis: &field.vis, skip });
    }
    Ok(out)
}

/// Whether the tokens of `ty` contain `name`.
fn mentions(ty: &Type, name: &Ident) -> bool {
    fn search(tokens: TokenStream, name: &Ident) -> bool {
        tokens.into_iter().any(|token| match token {
            TokenTree::Ident(ident) => ident == *name,
            TokenTree::Group(group) => search(group.stream(), name),
            _ => false,
        })
    }
    search(ty.to_token_stream(), name)
}

fn host_ident(input: &DeriveInput) -> Ident {
    format_ident!("{}Host", input.ident)
}

/// The struct of arrays for a struct without parameters for tensors.
fn declare_host(input: &DeriveInput, fields: &[Field<'_>]) -> TokenStream {
    let (vis, name, host) = (&input.vis, &input.ident, host_ident(input));
    let (generics, _, clause) = input.generics.split_for_impl();
    let docs = format!("[`{name}`] with arrays in place of tensors.");
    let types = fields.iter().map(|f| {
        let (ty, vis) = (f.ty, f.vis);
        let ty = if f.skip { quote!(#ty) } else { quote!(<#ty as ::meshwork::Tree>::Host) };
        match &f.member {
            Member::Named(ident) => {
                let docs = format!("As in [`{name}`].");
                quote!(#[doc = #docs] #vis #ident: #ty)
            }
            Member::Unnamed(_) => quote!(#vis #ty),
        }
    });
    let Data::Struct(data) = &input.data else { return quote!() };
    let body = match data.fields {
        Fields::Named(_) => quote!(#clause { #(#types),* }),
        Fields::Unnamed(_) => quote!((#(#types),*) #clause;),
        Fields::Unit => quote!(#clause;),
    };
    quote! {
        #[doc = #docs]
        #[derive(Clone, Debug)]
        #vis struct #host #generics #body
    }
}

/// The generics of `input`, whose parameters in `trees` have the bound `tree`.
fn bounded(input: &DeriveInput, trees: &[&Ident], statics: &[&Ident], tree: &TokenStream) -> syn::Generics {
    let mut generics = input.generics.clone();
    let clause = generics.make_where_clause();
    for p in trees {
        clause.predicates.push(syn::parse_quote!(#p: #tree));
    }
    for p in statics {
        clause.predicates.push(syn::parse_quote!(#p: ::core::clone::Clone + ::core::fmt::Debug));
    }
    generics
}

/// The parameters of `input`, with `other` in place of those in `trees`.
fn replaced(input: &DeriveInput, trees: &[&Ident], other: impl Fn(&Ident) -> TokenStream) -> Vec<TokenStream> {
    let one = |p: &GenericParam| match p {
        GenericParam::Type(t) if trees.contains(&&t.ident) => other(&t.ident),
        GenericParam::Type(t) => t.ident.to_token_stream(),
        GenericParam::Const(c) => c.ident.to_token_stream(),
        GenericParam::Lifetime(l) => l.lifetime.to_token_stream(),
    };
    input.generics.params.iter().map(one).collect()
}

fn implement(
    input: &DeriveInput,
    fields: &[Field<'_>],
    trees: &[&Ident],
    statics: &[&Ident],
    host: Host,
) -> TokenStream {
    let name = &input.ident;
    let generics = bounded(input, trees, statics, &quote!(::meshwork::Tree));
    let (impl_generics, own_generics, clause) = generics.split_for_impl();
    let params = replaced(input, trees, |p| quote!(<#p as ::meshwork::Tree>::Host));
    let (host_type, host_path) = match host {
        Host::Same => (quote!(#name<#(#params),*>), quote!(#name)),
        Host::Own => {
            let ident = host_ident(input);
            (quote!(#ident #own_generics), quote!(#ident))
        }
    };

    let live: Vec<&Field<'_>> = fields.iter().filter(|f| !f.skip).collect();
    let (members, names): (Vec<&Member>, Vec<&String>) = live.iter().map(|f| (&f.member, &f.name)).unzip();
    let types: Vec<&Type> = live.iter().map(|f| f.ty).collect();
    let skipped: Vec<&Member> = fields.iter().filter(|f| f.skip).map(|f| &f.member).collect();
    let build = |each: &dyn Fn(&Field<'_>) -> TokenStream| {
        let parts = fields.iter().map(|f| {
            let (member, value) = (&f.member, each(f));
            quote!(#member: #value)
        });
        quote!({ #(#parts),* })
    };
    let map = build(&|f| {
        let m = &f.member;
        if f.skip { quote!(self.#m.clone()) } else { quote!(::meshwork::Tree::map(&self.#m, next)) }
    });
    let to_host = build(&|f| {
        let m = &f.member;
        if f.skip { quote!(self.#m.clone()) } else { quote!(::meshwork::Tree::to_host(&self.#m, next)) }
    });
    let from_host = build(&|f| {
        let (m, ty) = (&f.member, f.ty);
        if f.skip { quote!(host.#m.clone()) } else { quote!(<#ty as ::meshwork::Tree>::from_host(&host.#m, next)) }
    });
    let of_host = host_tree(input, trees, statics, &host_type, host);
    quote! {
        #of_host

        #[automatically_derived]
        #[allow(unused_variables)]
        impl #impl_generics ::meshwork::Tree for #name #own_generics #clause {
            type Host = #host_type;

            fn tensors(&self, path: &mut ::meshwork::Path, visit: &mut dyn FnMut(&str, &::meshwork::Tensor)) {
                #(path.field(#names, |path| ::meshwork::Tree::tensors(&self.#members, path, visit));)*
            }

            fn map(&self, next: &mut dyn FnMut(&::meshwork::Tensor) -> ::meshwork::Tensor) -> Self {
                #name #map
            }

            fn to_host(&self, next: &mut dyn FnMut(&::meshwork::Tensor) -> ::meshwork::Array) -> Self::Host {
                #host_path #to_host
            }

            fn visit_host(host: &Self::Host, path: &mut ::meshwork::Path, visit: &mut dyn ::meshwork::Visit) {
                #(visit.fact(&host.#skipped);)*
                #(path.field(#names, |path| <#types as ::meshwork::Tree>::visit_host(&host.#members, path, visit));)*
            }

            fn from_host(
                host: &Self::Host,
                next: &mut dyn FnMut(&::meshwork::Array) -> ::meshwork::Tensor,
            ) -> Self {
                #name #from_host
            }
        }
    }
}

/// The way back: which tree belongs to the host type.
fn host_tree(
    input: &DeriveInput,
    trees: &[&Ident],
    statics: &[&Ident],
    host_type: &TokenStream,
    host: Host,
) -> TokenStream {
    let name = &input.ident;
    let generics = bounded(input, trees, statics, &quote!(::meshwork::HostTree));
    let (impl_generics, own_generics, clause) = generics.split_for_impl();
    let params = replaced(input, trees, |p| quote!(<#p as ::meshwork::HostTree>::Tree));
    let (own, tree) = match host {
        Host::Same => (quote!(#name #own_generics), quote!(#name<#(#params),*>)),
        Host::Own => (host_type.clone(), quote!(#name #own_generics)),
    };
    quote! {
        #[automatically_derived]
        impl #impl_generics ::meshwork::HostTree for #own #clause {
            type Tree = #tree;
        }
    }
}

#[cfg(test)]
mod tests {
    use syn::parse_quote;

    fn error(input: &syn::DeriveInput) -> String {
        super::tree(input).expect_err("it is refused").to_string()
    }

    #[test]
    fn enums_unions_lifetimes_and_unknown_options_are_refused() {
        let message = error(&parse_quote!(
            enum Layer {
                Dense(Tensor),
                Sparse,
            }
        ));
        assert!(message.starts_with("Tree can be derived for structs, not for enums: the variant"), "{message}");
        assert!(error(&parse_quote!(union U { a: u32 })).contains("not for unions"));
        let message = error(&parse_quote!(
            struct View<'a> {
                x: &'a Tensor,
            }
        ));
        assert_eq!(message, "a Tree owns its tensors: it cannot have lifetime parameters");
        let message = error(&parse_quote!(
            struct S<T> {
                #[tree(static)]
                x: T,
            }
        ));
        assert!(message.contains("the only option is `skip`"), "{message}");
        let message = error(&parse_quote!(
            struct S<T> {
                x: T,
                #[tree(skip)]
                y: Vec<T>,
            }
        ));
        assert_eq!(message, "a skipped field cannot use `T`, which other fields use for tensors");
    }
}
