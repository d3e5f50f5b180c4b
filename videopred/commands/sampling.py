"""The option --sampling, by which a trained model draws otherwise than it was configured to."""

import argparse


def add_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--sampling",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="how a stochastic model draws, in place of what its config says: predictor.temperature, or of TECO "
        "predictor.prior.temperature, draft_steps, revise_steps, revisions; may be given again for another",
    )
