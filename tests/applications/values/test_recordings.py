"""Files of recorded steps: what is written is what is read, and errors name the file."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gossamer as gs
from gossamer.applications import Experience

RNG = np.random.default_rng(0)


def steps(shared=True, count=30):
    rows = (count,) if shared else (count, 3)
    states, following = RNG.normal(size=(2, *rows, 2))
    ends, cuts = RNG.random((2, *rows)) < 0.1
    return Experience.of(states, RNG.normal(size=(count, 3)), following, ends, cuts, shared=shared)


def same(one: Experience, other: Experience) -> bool:
    return all(np.array_equal(value, vars(other)[name]) for name, value in vars(one).items())


@pytest.mark.parametrize(("name", "shared"), [("a.parquet", True), ("a.npz", True), ("a.npz", False)])
def test_what_is_saved_is_read(tmp_path, name, shared):
    given = steps(shared)
    given.save(tmp_path / name)
    assert same(Experience.read(tmp_path / name), given)


def test_json_lines(tmp_path):
    given = steps()
    rows = [
        {
            "state": s.tolist(),
            "rewards": r.tolist(),
            "next_state": n.tolist(),
            "terminated": bool(e),
            "truncated": bool(c),
        }
        for s, r, n, e, c in zip(
            given.states, given.rewards, given.next_states, given.terminated, given.truncated, strict=True
        )
    ]
    path = tmp_path / "steps.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows) + "\n\n")
    assert same(Experience.read(path), given)
    problem = gs.ValueEstimation("cycle:3", lambda x: np.column_stack([x, x[:, :1] ** 0]), 0.9)
    fit = problem.from_trajectories(path)
    assert fit.theta == pytest.approx(problem.from_trajectories(given).theta)
    path.write_text('{"state": 3, "rewards": [1], "next_state": 4}\n')
    assert Experience.read(path).states.tolist() == [3]  # the number of a state


def minari(folder, lengths, kind):
    """Episodes as Minari stores them: one observation more than rewards, in columns padded to its length."""
    episodes = [(RNG.normal(size=(n + 1, 2)), RNG.normal(size=n), np.arange(n) == n - 1) for n in lengths]
    data = folder / "data"
    data.mkdir()
    if kind == "hdf5":
        import h5py

        with h5py.File(data / "main_data.hdf5", "w") as file:
            for k, (seen, rewards, ends) in enumerate(episodes):
                group = file.create_group(f"episode_{k}")
                group["observations"], group["rewards"], group["terminations"] = seen, rewards, ends
                group["truncations"] = np.zeros(len(ends), dtype=bool)
        return episodes
    import pyarrow
    import pyarrow.dataset

    for k, (seen, rewards, ends) in enumerate(episodes):
        fixed = pyarrow.FixedSizeListArray.from_arrays(seen.reshape(-1), 2)
        batch = {
            "episode_id": np.full(len(seen), k, dtype=np.int32),
            "observations": fixed,
            "rewards": np.pad(rewards, (0, 1)),
            "terminations": np.pad(ends, (0, 1)),
            "truncations": np.zeros(len(seen), dtype=bool),
        }
        pyarrow.dataset.write_dataset(
            pyarrow.RecordBatch.from_pydict(batch),
            data,
            format=kind,
            partitioning=["episode_id"],
            existing_data_behavior="overwrite_or_ignore",
        )
    return episodes


@pytest.mark.parametrize("kind", ["hdf5", "parquet", "arrow"])
def test_episodes_of_minari_are_dealt_to_the_agents(tmp_path, kind):
    episodes = minari(tmp_path, [5, 7, 4, 6], kind)
    given = Experience.read(tmp_path, agents=2)
    assert given.rewards.shape == (9, 2)  # 5 + 4 of 7 + 6
    assert given.states[:5, 0] == pytest.approx(episodes[0][0][:-1])
    assert given.next_states[5:, 0] == pytest.approx(episodes[2][0][1:])
    assert given.rewards[7:, 1] == pytest.approx(episodes[3][1][:2])
    assert np.flatnonzero(given.terminated[:, 0]).tolist() == [4, 8]
    fit = gs.ValueEstimation("path:2", "fourier:3", 0.9, shared=False).from_trajectories(tmp_path)
    assert fit.rounds == 9
    with pytest.raises(gs.InvalidInput, match="at least one episode for each of 5 agents, got 4"):
        Experience.read(tmp_path, agents=5)


def test_errors_name_the_file(tmp_path):
    def refused(name, content, text):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content.encode())
        with pytest.raises(gs.InvalidInput, match=text):
            Experience.read(path)

    refused(
        "steps.csv",
        "1,2",
        r"steps.csv must end in .parquet, .npz, .jsonl, or be the folder of a dataset of Minari",
    )
    refused("a.npz", "no", "a.npz cannot be read as arrays of NumPy")
    refused("b.npz", None, "b.npz cannot be read")
    refused("a.parquet", "no", "a.parquet cannot be read as Parquet")
    refused("a.jsonl", '{"state": 1', "a.jsonl, line 1 is no JSON")
    refused("a.jsonl", "3", "a.jsonl, line 1 must be an object with state, rewards and next_state, got 3")
    refused("a.jsonl", '{"state": 1, "rewards": [1]}', "line 1 needs .* but lacks next_states")
    refused("a.jsonl", '{"state": 1, "rewards": [1], "next_state": 2, "end": 1}', "line 1 needs .* got end")
    row = '{"state": [1, 2], "rewards": [1, 1], "next_state": [2, 1]}'
    refused("a.jsonl", f"{row}\n{row.replace('[1, 1]', '[1]')}", "the same length in all lines")
    refused(
        "a.jsonl", row.replace("[2, 1]", "[2]"), r"a.jsonl: states, next_states and rewards must have one row"
    )
    refused("a.jsonl", "", "a.jsonl holds no steps")
    np.savez(tmp_path / "c.npz", states=[1, 2], rewards=[[1.0]], next_state=[2])
    refused("c.npz", None, "c.npz needs states, rewards, next_states .* but lacks next_states")
    with pytest.raises(gs.InvalidInput, match=r"a name that ends in \.npz"):
        steps(shared=False).save(tmp_path / "d.parquet")
