//! Gives the shared library the name that programs look for at run time.

fn main() {
    let major = std::env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libkhz.so.{major}");
    println!("cargo:rerun-if-changed=build.rs");
}
