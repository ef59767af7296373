"""Functions of other libraries, called through XLA's FFI."""

import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest

SOURCE = r"""
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static ffi::Error Scale(ffi::Buffer<ffi::F32> x, float by, std::string_view how, ffi::Span<const int64_t> add,
                        ffi::ResultBuffer<ffi::F32> y) {
  if (how != "by") return ffi::Error::InvalidArgument("how is neither this nor that");
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * by + add[0];
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Scaled, Scale, ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Attr<float>("by")
    .Attr<std::string_view>("how").Attr<ffi::Span<const int64_t>>("add").Ret<ffi::Buffer<ffi::F32>>());

static ffi::Error Increment(ffi::BufferR1<ffi::S32> x, ffi::ResultBufferR1<ffi::S32> y) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] += 1;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(Incremented, Increment,
    ffi::Ffi::Bind().Arg<ffi::BufferR1<ffi::S32>>().Ret<ffi::BufferR1<ffi::S32>>());
"""


@pytest.fixture(scope="module")
def functions(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    import ctypes

    where = tmp_path_factory.mktemp("ffi")
    (where / "scale.cc").write_text(SOURCE)
    command = [compiler, "-std=c++17", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}", "scale.cc", "-o", "libscale.so"]
    subprocess.run(command, cwd=where, check=True)
    library = ctypes.CDLL(str(where / "libscale.so"))
    jax.ffi.register_ffi_target("scaled", jax.ffi.pycapsule(library.Scaled), platform="meshwork")
    jax.ffi.register_ffi_target("incremented", jax.ffi.pycapsule(library.Incremented), platform="meshwork")


def scaled(x, how="by"):
    call = jax.ffi.ffi_call("scaled", jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="broadcast_all")
    return call(x, by=np.float32(3), how=how, add=np.array([10], np.int64))


def test_a_foreign_function_is_called(functions):
    x = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(scaled)(x) + 1, x * 3 + 11)
    np.testing.assert_array_equal(jax.vmap(scaled)(x), x * 3 + 10)


def test_what_it_says_is_an_exception(functions):
    with pytest.raises(Exception, match="how is neither this nor that"):
        jax.jit(lambda x: scaled(x, "from"))(jnp.ones(3)).block_until_ready()


def test_a_result_over_an_operand_starts_as_the_operand(functions):
    call = jax.ffi.ffi_call("incremented", jax.ShapeDtypeStruct((4,), "int32"), input_output_aliases={0: 0})
    np.testing.assert_array_equal(jax.jit(call)(jnp.arange(4)), [1, 2, 3, 4])


def test_other_interfaces_are_refused(functions):
    with pytest.raises(NotImplementedError, match="typed FFI"):
        jax.ffi.register_ffi_target("old", jax.ffi.pycapsule(1), platform="meshwork", api_version=0)
