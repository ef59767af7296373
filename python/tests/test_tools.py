"""Plans, contracts and pictures, for functions of any backend."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

import jax_meshwork


@pytest.fixture(params=["meshwork", "cpu"])
def lowered(request):
    devices = jax.devices(request.param)
    mesh = jax.sharding.Mesh(np.array(devices[: min(len(devices), 4)]), ("x",))
    x = jax.device_put(np.ones((8, 8), "f"), NamedSharding(mesh, P(None, "x")))
    w = jax.device_put(np.ones((8, 8), "f"), NamedSharding(mesh, P("x")))
    return jax.jit(lambda x, w: x @ w).lower(x, w)


def on_four():
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
    x = jax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(mesh, P(None, "x")))
    w = jax.ShapeDtypeStruct((8, 8), "float32", sharding=NamedSharding(mesh, P("x")))
    return jax.jit(lambda x, w: x @ w), x, w


def test_every_tool_answers(lowered):
    assert "peak" in jax_meshwork.explain(lowered).lower() or jax_meshwork.explain(lowered)
    assert jax_meshwork.plan(lowered)["results"][0]["type"] == "f32[8,8]"
    assert "stablehlo.dot_general" in jax_meshwork.partition(lowered)
    assert jax_meshwork.why(lowered, value="arg0")


def test_pages_are_one_file(lowered, tmp_path):
    page = jax_meshwork.explore(lowered, title="</title><script>")
    path = page.write(tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>") and text.count("<script") == 2
    assert "<title>&lt;/title&gt;" in text
    assert page._repr_html_().startswith("<iframe srcdoc=")

    lock = tmp_path / "plan.lock"
    jax_meshwork.lock(lowered, path=lock)
    assert jax_meshwork.explore(lowered, lock=lock, budget=1 << 20).html != page.html


def test_plans_name_the_users_file():
    f, x, w = on_four()
    assert "test_tools.py" in jax_meshwork.explain(f, x, w, all=True)
    assert jax_meshwork.plan(f, x, w)["totals"]["all-reduce"]["count"] == 1
    assert "<svg" in jax_meshwork.plan(f, x, w)._repr_html_()


def test_searches_give_partition_specs():
    f, x, w = on_four()
    lowered = f.lower(jax.ShapeDtypeStruct((64, 8), "float32"), jax.ShapeDtypeStruct((8, 8), "float32"))
    found = jax_meshwork.plan(lowered, mesh={"x": 4}, evaluations=200)
    assert found.mesh == [("x", 4)] and "plans compiled" in str(found)
    (rows, weights), _ = found.in_tree(lowered)
    assert rows == P("x", None) and isinstance(weights, P)
    fixed = jax_meshwork.plan(f, x, w, mesh={"x": 4}, fresh=True, fix={"arg|x|w": "-,-"}, evaluations=200)
    assert fixed.in_specs == [P(None, None), P(None, None)]
    with pytest.raises(jax_meshwork.ContractError, match="memory"):
        jax_meshwork.plan(f, x, w, mesh={"x": 4}, fresh=True, memory=8, evaluations=200)


def test_contracts():
    f, x, w = on_four()
    jax_meshwork.check(f, x, w, allow=["all-reduce"], max_bytes=10_000)
    with pytest.raises(jax_meshwork.ContractError, match="all-reduce"):
        jax_meshwork.check(f, x, w, allow=[])
    with pytest.raises(jax_meshwork.ContractError, match="bytes|B"):
        jax_meshwork.check(f, x, w, max_bytes=1)


def test_lock_files(tmp_path):
    f, x, w = on_four()
    file = tmp_path / "f.lock"
    jax_meshwork.check(f, x, w, lock=file)
    jax_meshwork.check(f, x, w, lock=file)
    with pytest.raises(jax_meshwork.ContractError, match="lock file"):
        jax_meshwork.check(jax.jit(lambda x, w: (x @ w).sum()), x, w, lock=file)


def test_exported_functions_and_text():
    f, x, w = on_four()
    exported = jax.export.export(f, platforms=["cpu"])(x, w)
    assert jax_meshwork.plan(exported)["totals"] == jax_meshwork.plan(f.lower(x, w).as_text())["totals"]


def test_wrong_programs_are_errors():
    with pytest.raises(jax_meshwork.Error):
        jax_meshwork.explain("module { nonsense }")
    with pytest.raises(TypeError, match="int"):
        jax_meshwork.explain(3)
    f, x, w = on_four()
    with pytest.raises(jax_meshwork.Error, match="arg9"):
        jax_meshwork.why(f, x, w, value="arg9")


def test_the_fixture_fails_a_test_that_breaks_its_contract(pytester):
    pytester.makepyfile(
        """
        import jax
        from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

        def test_gathers(contract):
            mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=jax.devices()[:4])
            x = jax.ShapeDtypeStruct((8,), "float32", sharding=NamedSharding(mesh, P("x")))
            contract(jax.jit(lambda x: x.sum()), x, allow=["all-reduce"])
            contract(jax.jit(lambda x: x.sum()), x, allow=[])
        """
    )
    result = pytester.runpytest("-p", "jax_meshwork.testing")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*all-reduce*"])


def test_exported_functions_with_symbolic_shapes_are_asked_about_for_some_arguments():
    (n,) = jax.export.symbolic_shape("n")
    shape = jax.ShapeDtypeStruct((n, 3), "float32")
    exported = jax.export.export(jax.jit(lambda x: x.reshape(-1) * 2), platforms=["cpu"])(shape)
    assert jax_meshwork.plan(exported, np.ones((4, 3), "f"))["results"][0]["type"] == "f32[12]"
