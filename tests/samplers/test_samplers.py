"""The samplers have the laws their equations say, and are the optimisers they become at T = 0.

A linear-Gaussian posterior makes every update a linear recursion with independent noise, so the
first two moments after any number of steps follow exactly from those of the noise. Many copies of
the chain run side by side as one tensor: their spread is the law.
"""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable

import numpy as np
import posteriors
import posteriors.sgmcmc.sghmc
import posteriors.sgmcmc.sgld
import pytest
import torch
from torch import Tensor, nn

from scenarios import STANDARD_ERRORS, assert_close_in_law, excess_kurtosis, mlp
from sparsemble.errors import InputError
from sparsemble.priors import Gaussian
from sparsemble.samplers import PSGLD, SGHMC, SGLD, NoiseSource, Sampler

BOTH_NOISES = pytest.mark.parametrize("noise", ["gaussian", "rademacher"])
TEMPERATURES = pytest.mark.parametrize("temperature", [1.0, 0.3])

NUM_DATA = 50
CURVATURE = 2.0
COPIES = 200_000


def run(sampler: Sampler, loss: Callable[[], Tensor], steps: int) -> None:
    for _ in range(steps):
        sampler.zero_grad()
        loss().backward()
        sampler.step()


def quadratic(theta: Tensor, curvature: float | Tensor = CURVATURE) -> Callable[[], Tensor]:
    """The mean loss `L = aθ²/2` of every copy; the copies do not see each other."""
    return lambda: (curvature * theta.square() / 2).sum()


class TestSGLDOnAGaussian:
    """`θ' = ρθ + √(2ηT/N)·ξ` with `ρ = 1 − ηa`: an AR(1) process."""

    rate = 0.15
    memory = 1 - rate * CURVATURE

    def stationary(self, temperature: float) -> float:
        return (2 * self.rate * temperature / NUM_DATA) / (1 - self.memory**2)

    def draws(self, temperature: float, noise: str) -> Tensor:
        theta = nn.Parameter(torch.zeros(COPIES))
        sampler = SGLD(
            [theta], self.rate, num_data=NUM_DATA, temperature=temperature, noise=noise, seed=1
        )
        run(sampler, quadratic(theta), steps=60)
        return theta.detach()

    @TEMPERATURES
    def test_gaussian_noise_gives_the_stationary_law_of_the_recursion(self, temperature):
        draws = self.draws(temperature, "gaussian")
        assert_close_in_law(draws, mean=0, variance=self.stationary(temperature))
        assert abs(excess_kurtosis(draws)) < STANDARD_ERRORS * math.sqrt(24 / COPIES)

    @TEMPERATURES
    def test_rademacher_noise_gives_the_same_mean_and_variance(self, temperature):
        # Σ ρᵏξ_k of signs: the fourth cumulants −2ρ⁴ᵏ add up, the variances ρ²ᵏ too.
        kurtosis = -2 * (1 - self.memory**2) / (1 + self.memory**2)
        draws = self.draws(temperature, "rademacher")
        variance = self.stationary(temperature)
        assert_close_in_law(draws, mean=0, variance=variance, excess_kurtosis=kurtosis)
        error = STANDARD_ERRORS * math.sqrt(24 / COPIES)
        assert excess_kurtosis(draws) == pytest.approx(kurtosis, abs=error)

    def test_at_a_small_rate_the_variance_is_the_posteriors(self):
        # 1/(Na) is the variance of exp(−N·aθ²/2); the rate adds a share of ηa/2 = 0.5 %.
        theta = nn.Parameter(torch.randn(COPIES) / math.sqrt(NUM_DATA * CURVATURE))
        run(SGLD([theta], 0.005, num_data=NUM_DATA, seed=2), quadratic(theta), steps=200)
        variance = float(theta.detach().var())
        assert variance == pytest.approx(1 / (NUM_DATA * CURVATURE), rel=0.02)


@BOTH_NOISES
@TEMPERATURES
def test_sghmc_has_the_stationary_covariance_of_its_recursion(noise, temperature):
    rate, friction = 0.1, 0.3
    pull = rate * CURVATURE
    step = np.array([[1 - friction, -pull], [1 - friction, 1 - pull]])
    kick = 2 * friction * rate * temperature / NUM_DATA * np.ones((2, 2))
    covariance = np.linalg.solve(np.eye(4) - np.kron(step, step), kick.ravel()).reshape(2, 2)

    theta = nn.Parameter(torch.zeros(COPIES))
    sampler = SGHMC(
        [theta],
        rate,
        num_data=NUM_DATA,
        temperature=temperature,
        friction=friction,
        noise=noise,
        seed=3,
    )
    run(sampler, quadratic(theta), steps=100)

    velocity = sampler.state[theta]["velocity"]
    found = np.cov(torch.stack([velocity, theta.detach()]).double().numpy())
    # The error of a Gaussian's covariance; signs have lighter tails, hence a smaller one.
    scale = np.outer(covariance.diagonal(), covariance.diagonal())
    error = np.sqrt((scale + covariance**2) / COPIES)
    assert (np.abs(found - covariance) < STANDARD_ERRORS * error).all()
    assert abs(float(theta.detach().mean())) < STANDARD_ERRORS * math.sqrt(
        covariance[1, 1] / COPIES
    )


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "temperature"), [("gaussian", 0.3), ("rademacher", 1.0)])
def test_psgld_has_the_target_variance_within_ten_percent_at_very_different_curvatures(
    noise, temperature
):
    """With a long memory `G` hardly moves, and the law is SGLD's at the rate `ηG`.

    The tolerance covers what is left: `G` still follows θ a little, and Γ is omitted.
    """
    copies, num_data = 4_000, 100
    curvature = torch.tensor([[1.0], [16.0]])
    target = temperature / (num_data * curvature)
    theta = nn.Parameter(torch.randn(2, copies) * target.sqrt())
    rate = 0.005 * math.sqrt(temperature)  # √V = √(aT/N): effective rates of 0.05 and 0.2
    sampler = PSGLD(
        [theta],
        rate,
        num_data=num_data,
        temperature=temperature,
        smoothing=0.998,
        noise=noise,
        seed=4,
    )
    run(sampler, quadratic(theta, curvature), steps=2_500)
    effective = rate * curvature / (curvature * target.sqrt())
    expected = target / (1 - effective / 2)
    found = theta.detach().var(1, keepdim=True)
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0)
    assert (theta.detach().mean(1).abs() < 0.05 * target.sqrt().squeeze()).all()


def test_psgld_with_a_damping_above_all_gradients_is_sgld_at_the_damped_rate():
    start = torch.randn(500, dtype=torch.float64)
    damped, plain = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    run(PSGLD([damped], 1e8, num_data=NUM_DATA, damping=1e9, seed=5), quadratic(damped), 20)
    run(SGLD([plain], 0.1, num_data=NUM_DATA, seed=5), quadratic(plain), 20)
    torch.testing.assert_close(damped, plain, rtol=1e-7, atol=1e-9)


def test_psgld_divides_gradient_and_squared_noise_by_the_root_of_the_mean_square():
    # One step from V = 0 with g = 3: V = 0.25·9, G = 1/(1.5 + 0.5) = 1/2.
    theta = nn.Parameter(torch.tensor([10.0], dtype=torch.float64))
    theta.grad = torch.tensor([3.0], dtype=torch.float64)
    sampler = PSGLD(
        [theta], 0.4, num_data=5, smoothing=0.75, damping=0.5, noise="rademacher", seed=0
    )
    sampler.step()
    noise = math.sqrt(2 * 0.4 * 0.5 / 5)
    assert abs(theta.item() - (10 - 0.4 * 0.5 * 3)) == pytest.approx(noise, rel=1e-12)


class Regression:
    """Conjugate linear regression in one dimension: `y ~ N(θx, 1)`, `θ ~ N(0, 1/rate)`.

    A mini-batch of `size` examples drawn with replacement has the gradient `h̃θ − c̃`, where `h̃`
    and `c̃` are means of `size` independent draws from `{(x_i² + λ, x_i·y_i)}`: their second
    moments are finite sums. So the moments of the state follow, step by step, exactly.
    """

    size = 4
    num_data = 40
    prior = Gaussian.from_rate(4.0, num_data=num_data)
    copies = 40_000

    def __init__(self) -> None:
        self.x = torch.randn(self.num_data)
        self.y = 0.7 * self.x + torch.randn(self.num_data)
        x, y = self.x.double().numpy(), self.y.double().numpy()
        self.posterior_mean = float(x @ y / (x @ x + 4.0))
        self.posterior_variance = float(1 / (x @ x + 4.0))
        terms = np.stack([np.ones_like(x), x**2 + 4.0 / self.num_data, x * y])
        mean = terms.mean(1)
        spread = np.cov(terms, bias=True)
        self.second_moments = np.outer(mean, mean) + spread / self.size

    def loss(self, theta: Tensor) -> Callable[[], Tensor]:
        generator = torch.Generator().manual_seed(7)

        def mini_batch() -> Tensor:
            shape = (self.size, *theta.shape)
            rows = torch.randint(self.num_data, shape, generator=generator)
            fit = ((theta * self.x[rows] - self.y[rows]).square() / 2).mean(0)
            return (fit + self.prior.penalty * theta.square() / 2).sum()

        return mini_batch

    def state_moments(self, fixed: list, by_h: list, by_c: list, noise: list) -> np.ndarray:
        """`E[zzᵀ]` in the limit for `z' = (fixed + h̃·by_h + c̃·by_c)z + noise·ξ`, last `z` = 1."""
        steps = np.array([fixed, by_h, by_c], dtype=float)
        kick = np.outer(noise, noise)
        moments = np.zeros_like(kick)
        moments[-1, -1] = 1
        for _ in range(2_000):
            moments = kick + np.einsum(
                "kl,kij,jm,lnm->in", self.second_moments, steps, moments, steps
            )
        return moments

    def sgld_moments(self, rate: float, noise_variance: float) -> np.ndarray:
        return self.state_moments(
            fixed=[[1, 0], [0, 1]],
            by_h=[[-rate, 0], [0, 0]],
            by_c=[[0, rate], [0, 0]],
            noise=[math.sqrt(noise_variance), 0],
        )

    def check(self, theta: Tensor, moments: np.ndarray) -> None:
        values = theta.detach().double()
        mean = moments[-2, -1]
        variance = moments[-2, -2] - mean**2
        mean_error = math.sqrt(variance / self.copies)
        assert abs(float(values.mean()) - mean) < STANDARD_ERRORS * mean_error
        squares = (values - mean).square()
        variance_error = float(squares.std()) / math.sqrt(self.copies)
        assert abs(float(squares.mean()) - variance) < STANDARD_ERRORS * variance_error


class TestMiniBatchRegression:
    @BOTH_NOISES
    def test_sgld_has_the_law_of_the_noisy_recursion(self, noise):
        problem, rate = Regression(), 0.1
        theta = nn.Parameter(torch.zeros(problem.copies))
        sampler = SGLD([theta], rate, num_data=problem.num_data, noise=noise, seed=8)
        run(sampler, problem.loss(theta), steps=120)

        moments = problem.sgld_moments(rate, 2 * rate / problem.num_data)
        assert moments[0, 1] == pytest.approx(problem.posterior_mean)
        # The mini-batches widen the law by so much that a wrong noise scale would show.
        assert 1.2 < (moments[0, 0] - moments[0, 1] ** 2) / problem.posterior_variance < 2
        problem.check(theta, moments)

    @BOTH_NOISES
    def test_sghmc_has_the_law_of_the_noisy_recursion(self, noise):
        problem, rate, friction = Regression(), 0.05, 0.2
        theta = nn.Parameter(torch.zeros(problem.copies))
        sampler = SGHMC(
            [theta], rate, num_data=problem.num_data, friction=friction, noise=noise, seed=9
        )
        run(sampler, problem.loss(theta), steps=150)

        kick = math.sqrt(2 * friction * rate / problem.num_data)
        moments = problem.state_moments(
            fixed=[[1 - friction, 0, 0], [1 - friction, 1, 0], [0, 0, 1]],
            by_h=[[0, -rate, 0], [0, -rate, 0], [0, 0, 0]],
            by_c=[[0, 0, rate], [0, 0, rate], [0, 0, 0]],
            noise=[kick, kick, 0],
        )
        assert moments[1, 2] == pytest.approx(problem.posterior_mean)
        problem.check(theta, moments)

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "noise", ["gaussian", pytest.param("rademacher", marks=pytest.mark.thorough)]
    )
    def test_psgld_has_within_five_percent_the_law_of_sgld_at_the_preconditioned_rate(self, noise):
        problem, rate = Regression(), 0.05
        problem.copies = 6_000
        theta = nn.Parameter(torch.full((problem.copies,), problem.posterior_mean))
        sampler = PSGLD(
            [theta], rate, num_data=problem.num_data, smoothing=0.998, noise=noise, seed=10
        )
        run(sampler, problem.loss(theta), steps=2_500)

        preconditioner, squares = 1.0, problem.second_moments
        for _ in range(20):
            effective = rate * preconditioner
            moments = problem.sgld_moments(effective, 2 * effective / problem.num_data)
            mean_square = (
                squares[1, 1] * moments[0, 0] - 2 * squares[1, 2] * moments[0, 1] + squares[2, 2]
            )
            preconditioner = 1 / (math.sqrt(mean_square) + 1e-5)
        variance = moments[0, 0] - moments[0, 1] ** 2
        assert preconditioner > 1.5  # far from SGLD at the bare rate
        assert float(theta.detach().var()) == pytest.approx(variance, rel=0.05)
        assert float(theta.detach().mean()) == pytest.approx(
            problem.posterior_mean, abs=0.05 * math.sqrt(variance)
        )


class TestTemperatureZero:
    @staticmethod
    def trained(
        build: Callable[[list[nn.Parameter]], torch.optim.Optimizer],
        dtype: torch.dtype,
        decay: float,
    ) -> list[Tensor]:
        torch.manual_seed(11)
        network = mlp(6, 9, 5, 3, activation=nn.Tanh).to(dtype)
        inputs, targets = torch.randn(50, 8, 6, dtype=dtype), torch.randint(3, (50, 8))
        optimiser = build(list(network.parameters()))
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimiser, decay)
        for x, y in zip(inputs, targets, strict=True):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x), y).backward()
            optimiser.step()
            scheduler.step()
        return list(network.parameters())

    def test_sgld_is_sgd_bit_for_bit_under_a_torch_scheduler(self):
        ours = self.trained(
            lambda p: SGLD(p, 0.3, num_data=400, temperature=0.0), torch.float32, decay=0.97
        )
        theirs = self.trained(lambda p: torch.optim.SGD(p, 0.3), torch.float32, decay=0.97)
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))

    def test_sghmc_is_sgd_with_momentum_one_minus_friction(self):
        ours = self.trained(
            lambda p: SGHMC(p, 0.1, num_data=400, temperature=0.0, friction=0.1),
            torch.float64,
            decay=1.0,
        )
        theirs = self.trained(
            lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.float64, decay=1.0
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)

    @pytest.mark.parametrize("sampler", [SGLD, SGHMC, PSGLD])
    def test_no_noise_is_drawn(self, sampler):
        theta = nn.Parameter(torch.ones(3))
        cold = sampler([theta], 0.1, num_data=10, temperature=0.0)
        before = cold.state_dict()["noise"][0]
        run(cold, quadratic(theta), steps=3)
        assert torch.equal(cold.state_dict()["noise"][0], before)


class TorchWithNoise:
    """`torch`, but for a `randn_like` that hands out the given noise by shape."""

    def __init__(self, noise: list[Tensor]) -> None:
        self.noise = {tuple(tensor.shape): tensor for tensor in noise}

    def randn_like(self, tensor: Tensor) -> Tensor:
        return self.noise[tuple(tensor.shape)]

    def __getattr__(self, name: str) -> object:
        return getattr(torch, name)


class TestAgainstPosteriors:
    """`posteriors` takes a log posterior; fed with `−L` its temperature is our `T/N`."""

    rate, temperature, num_data, friction = 0.07, 0.6, 30, 0.25

    def setup_method(self) -> None:
        torch.manual_seed(12)
        self.start = {
            "weight": torch.randn(3, 4, dtype=torch.float64),
            "bias": torch.randn(3, dtype=torch.float64),
        }
        self.x = torch.randn(20, 4, dtype=torch.float64)
        self.y = torch.randn(20, 3, dtype=torch.float64)
        self.parameters = {n: nn.Parameter(t.clone()) for n, t in self.start.items()}
        source = NoiseSource("gaussian", torch.Generator().manual_seed(13), torch.float64)
        self.noise = [tensor.clone() for tensor in source.draw(list(self.start.values()))]

    def loss(self, parameters: dict[str, Tensor]) -> Tensor:
        fit = torch.tanh(self.x @ parameters["weight"].T + parameters["bias"]) - self.y
        return fit.square().mean()

    def log_posterior(self, parameters: dict[str, Tensor], _: object) -> tuple[Tensor, Tensor]:
        return -self.loss(parameters), torch.zeros(())

    def test_a_step_of_sgld_is_theirs_given_the_same_noise(self, monkeypatch):
        sampler = SGLD(
            self.parameters.values(),
            self.rate,
            num_data=self.num_data,
            temperature=self.temperature,
            seed=13,
        )
        run(sampler, lambda: self.loss(self.parameters), steps=1)

        theirs = posteriors.sgmcmc.sgld.build(
            self.log_posterior, lr=self.rate, temperature=self.temperature / self.num_data
        )
        monkeypatch.setattr(posteriors.sgmcmc.sgld, "torch", TorchWithNoise(self.noise))
        state, _ = theirs.update(theirs.init(self.start), None)
        for name, parameter in self.parameters.items():
            torch.testing.assert_close(
                parameter.detach(), state.params[name], rtol=1e-13, atol=1e-14
            )

    def test_a_step_of_sghmc_is_theirs_given_the_same_noise(self, monkeypatch):
        """Their step is `ε = √η`, their momentum `v/ε` and their friction `α/ε`.

        They move before they kick, so our place after a step is theirs plus one more move.
        """
        sampler = SGHMC(
            self.parameters.values(),
            self.rate,
            num_data=self.num_data,
            temperature=self.temperature,
            friction=self.friction,
            seed=13,
        )
        velocities = {n: torch.randn_like(t) / 5 for n, t in self.start.items()}
        for name, parameter in self.parameters.items():
            sampler.state[parameter]["velocity"] = velocities[name].clone()
        run(sampler, lambda: self.loss(self.parameters), steps=1)

        step = math.sqrt(self.rate)
        theirs = posteriors.sgmcmc.sghmc.build(
            self.log_posterior,
            lr=step,
            alpha=self.friction / step,
            temperature=self.temperature / self.num_data,
            momenta={n: v / step for n, v in velocities.items()},
        )
        begun = theirs.init(self.start)
        monkeypatch.setattr(posteriors.sgmcmc.sghmc, "torch", TorchWithNoise(self.noise))
        state, _ = theirs.update(begun, None)
        for name, parameter in self.parameters.items():
            kicked = step * state.momenta[name]
            torch.testing.assert_close(
                sampler.state[parameter]["velocity"], kicked, rtol=1e-12, atol=1e-14
            )
            moved = state.params[name] - velocities[name] + kicked
            torch.testing.assert_close(parameter.detach(), moved, rtol=1e-12, atol=1e-14)


class TestResuming:
    @BOTH_NOISES
    @pytest.mark.parametrize("kind", [SGLD, SGHMC, PSGLD])
    def test_a_sampler_restored_from_a_file_goes_on_bit_for_bit(self, kind, noise):
        def make(seed: int) -> tuple[list[nn.Parameter], Sampler]:
            torch.manual_seed(14)
            parameters = [nn.Parameter(torch.randn(7, 3)), nn.Parameter(torch.randn(5))]
            return parameters, kind(parameters, 0.1, num_data=20, noise=noise, seed=seed)

        def go_on(parameters: list[nn.Parameter], sampler: Sampler) -> None:
            run(sampler, lambda: sum(quadratic(p)() for p in parameters), steps=10)

        uninterrupted, sampler = make(seed=15)
        go_on(uninterrupted, sampler)
        file = io.BytesIO()
        saved = {"parameters": [p.detach() for p in uninterrupted], "sampler": sampler.state_dict()}
        torch.save(saved, file)
        go_on(uninterrupted, sampler)

        resumed, other = make(seed=99)
        file.seek(0)
        loaded = torch.load(file, weights_only=True)
        with torch.no_grad():
            for parameter, value in zip(resumed, loaded["parameters"], strict=True):
                parameter.copy_(value)
        other.load_state_dict(loaded["sampler"])
        go_on(resumed, other)
        assert all(torch.equal(a, b) for a, b in zip(resumed, uninterrupted, strict=True))

    def test_reseeding_starts_the_noise_anew(self):
        theta = nn.Parameter(torch.zeros(10))
        sampler = SGLD([theta], 0.1, num_data=20, seed=16)
        steps = []
        for _ in range(2):
            theta.data.zero_()
            theta.grad = torch.zeros(10)
            sampler.step()
            steps.append(theta.detach().clone())
            sampler.reseed(16)
        assert torch.equal(*steps)

    def test_different_seeds_give_different_noise(self):
        steps = []
        for seed in (1, 2):
            theta = nn.Parameter(torch.zeros(10))
            theta.grad = torch.zeros(10)
            SGLD([theta], 0.1, num_data=20, seed=seed).step()
            steps.append(theta.detach())
        assert not torch.equal(*steps)


DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class TestWhereTheNoiseLives:
    @pytest.mark.parametrize("device", DEVICES)
    @BOTH_NOISES
    def test_parameters_of_any_dtype_get_noise_of_their_own_precision(self, device, noise):
        parameters = [
            nn.Parameter(torch.zeros(1_000, dtype=dtype, device=device))
            for dtype in (torch.float32, torch.float64)
        ]
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        SGLD(parameters, 0.1, num_data=2, noise=noise, seed=17).step()
        single, double = (parameter.detach().cpu() for parameter in parameters)
        assert (single.dtype, double.dtype) == (torch.float32, torch.float64)
        assert (single != 0).all()
        # √(2·0.1/2) is not a float32: only noise in double precision leaves its digits.
        assert (double.float().double() != double).all()

    def test_parameters_added_later_get_noise_too(self):
        first, added = nn.Parameter(torch.zeros(9)), nn.Parameter(torch.zeros(9).double())
        sampler = SGLD([first], 0.1, num_data=2, seed=17)
        sampler.add_param_group({"params": [added]})
        first.grad, added.grad = torch.zeros(9), torch.zeros(9).double()
        sampler.step()
        assert (first != 0).all()
        assert (added != 0).all()
        assert len(sampler.state_dict()["noise"]) == 2

    def test_a_network_cast_after_the_sampler_was_made_is_refused_not_passed_over(self):
        network = nn.Linear(3, 2)
        sampler = SGLD(network.parameters(), 0.1, num_data=2, temperature=0)
        network.double()(torch.zeros(1, 3).double()).sum().backward()
        with pytest.raises(InputError, match=r"now torch.float64 on cpu: make the sampler after"):
            sampler.step()

    def test_the_global_generator_is_neither_used_nor_moved(self):
        steps = []
        for seed in (1, 2):
            torch.manual_seed(seed)
            before = torch.get_rng_state()
            theta = nn.Parameter(torch.zeros(10))
            theta.grad = torch.zeros(10)
            SGLD([theta], 0.1, num_data=20, seed=18).step()
            assert torch.equal(torch.get_rng_state(), before)
            steps.append(theta.detach())
        assert torch.equal(*steps)

    def test_parameters_without_a_gradient_stay_where_they_are(self):
        moving, still = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))
        moving.grad = torch.zeros(4)
        SGLD([still, moving], 0.1, num_data=20).step()
        assert (moving != 0).all()
        assert (still == 0).all()


@pytest.mark.parametrize("sampler", [SGLD, SGHMC, PSGLD])
@pytest.mark.parametrize(
    ("bad", "named"),
    [
        ({"temperature": -0.5}, "temperature = -0.5"),
        ({"temperature": math.nan}, "temperature = nan"),
        ({"temperature": math.inf}, "temperature = inf"),
        ({"lr": -0.1}, "lr = -0.1"),
        ({"lr": math.nan}, "lr = nan"),
        ({"lr": math.inf}, "lr = inf"),
        ({"num_data": 0}, "num_data = 0"),
        ({"num_data": -3}, "num_data = -3"),
        ({"num_data": math.nan}, "num_data = nan"),
        ({"noise": "uniform"}, "uniform"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(sampler, bad, named):
    with pytest.raises(InputError, match=named):
        sampler([nn.Parameter(torch.zeros(1))], **({"lr": 0.1, "num_data": 10} | bad))


@pytest.mark.parametrize(
    ("sampler", "bad", "named"),
    [
        (SGHMC, {"friction": 0.0}, "friction = 0.0"),
        (SGHMC, {"friction": 1.5}, "friction = 1.5"),
        (SGHMC, {"friction": math.nan}, "friction = nan"),
        (PSGLD, {"smoothing": 1.0}, "smoothing = 1.0"),
        (PSGLD, {"smoothing": -0.1}, "smoothing = -0.1"),
        (PSGLD, {"damping": 0.0}, "damping = 0.0"),
        (PSGLD, {"damping": math.nan}, "damping = nan"),
    ],
)
def test_a_samplers_own_value_that_cannot_be_used_is_named(sampler, bad, named):
    with pytest.raises(InputError, match=named):
        sampler([nn.Parameter(torch.zeros(1))], lr=0.1, num_data=10, **bad)


@pytest.mark.parametrize("kind", [SGLD, PSGLD, SGHMC])
def test_noise_to_drift_is_the_ratio_of_what_a_step_adds(kind):
    start, slope = torch.zeros(100_000), torch.linspace(1, 5, 100_000)

    def moved(temperature: float) -> tuple[Tensor, float]:
        theta = nn.Parameter(start.clone())
        sampler = kind([theta], 0.01, num_data=NUM_DATA, temperature=temperature)
        theta.grad = slope.clone()
        sampler.step()
        return theta.detach(), sampler.noise_to_drift()

    (hot, told), (cold, none) = moved(1.0), moved(0.0)
    assert none == 0
    measured = float((hot - cold).norm() / (cold - start).norm())
    assert told == pytest.approx(measured, rel=0.02)


@pytest.mark.parametrize("kind", [SGLD, PSGLD, SGHMC])
@pytest.mark.parametrize("way", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copied_sampler_goes_on_as_the_first_would(kind, way):
    sampler = kind([nn.Parameter(torch.ones(5))], lr=0.1, num_data=10)
    run(sampler, quadratic(sampler.param_groups[0]["params"][0]), 3)
    other = way(sampler)
    for each in (sampler, other):
        run(each, quadratic(each.param_groups[0]["params"][0]), 3)
    first, second = (each.param_groups[0]["params"][0] for each in (sampler, other))
    assert first is not second
    assert torch.equal(first, second)
