"""Mutations of leader epochs, in the log and in their checkpoint."""

from tests.spark_validation.mutation import Mutation
from tests.spark_validation.world import Topic


def leader_epochs(topic: Topic) -> None:
    for n, batch in enumerate(topic.log[0]):
        batch.leader_epoch = n // 4
    topic.files["leader-epoch-checkpoint"] = b"0\n3\n0 0\n1 20\n2 40\n"


def leader_epoch_back(topic: Topic) -> None:
    leader_epochs(topic)
    topic.log[0][8].leader_epoch = 0
    topic.files.clear()


def leader_epoch_ahead(topic: Topic) -> None:
    leader_epochs(topic)
    topic.log[0][2].leader_epoch = 7
    topic.files.clear()


def leader_epoch_of_another_start(topic: Topic) -> None:
    leader_epochs(topic)
    topic.files["leader-epoch-checkpoint"] = b"0\n3\n0 0\n1 25\n2 40\n"


def leader_epoch_to_come(topic: Topic) -> None:
    leader_epochs(topic)
    topic.files["leader-epoch-checkpoint"] = b"0\n4\n0 0\n1 20\n2 40\n3 61\n"


def leader_epochs_spoiled(topic: Topic) -> None:
    leader_epochs(topic)
    topic.files["leader-epoch-checkpoint"] = b"0\n3\n0 0\n1 20\n2 40\n3 x\n"


def leader_epochs_of(checkpoint: bytes):  # type: ignore[no-untyped-def]
    def mutate(topic: Topic) -> None:
        leader_epochs(topic)
        topic.files["leader-epoch-checkpoint"] = checkpoint

    return mutate


V07 = "V07"
UNCOVERED = ("V13", "leader-epoch-checkpoint has no entry for the batch at N")
EPOCH_MUTATIONS: tuple[Mutation, ...] = (
    Mutation("clean-epochs", "idempotent", leader_epochs, {}),
    Mutation("leader-epoch", "idempotent", leader_epoch_back, {(V07, "leader epoch steps back"): 1}),
    Mutation(
        "leader-epoch-ahead",
        "idempotent",
        leader_epoch_ahead,
        {(V07, "leader epoch above a later one"): 1},
    ),
    Mutation(
        "epoch-file",
        "idempotent",
        leader_epoch_of_another_start,
        {("V13", "leader-epoch-checkpoint says N, there is N"): 1},
    ),
    Mutation(
        "epoch-to-come",
        "idempotent",
        leader_epoch_to_come,
        {("V13", "leader-epoch-checkpoint lies after the log's end"): 1},
    ),
    Mutation(
        "epoch-file-within",
        "idempotent",
        leader_epochs_of(b"0\n3\n0 0\n1 18\n2 40\n"),
        {("V13", "leader-epoch-checkpoint begins within the batch at N"): 1},
    ),
    Mutation(
        "epoch-file-torn",
        "idempotent",
        leader_epochs_spoiled,
        {("V13", "leader-epoch-checkpoint cannot be read"): 1},
    ),
    Mutation("epoch-file-late", "idempotent", leader_epochs_of(b"0\n2\n1 20\n2 40\n"), {UNCOVERED: 1}),
    Mutation("epoch-file-empty", "idempotent", leader_epochs_of(b""), {UNCOVERED: 1}),
    Mutation(
        "epoch-file-short",
        "idempotent",
        leader_epochs_of(b"0\n4\n0 0\n1 20\n2 40\n"),
        {("V13", "leader-epoch-checkpoint cannot be read"): 1},
    ),
)
