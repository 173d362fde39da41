"""Which version of a function was active when, and what else this schema adds to the one before."""

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nothing is renamed or removed."""


def downgrade() -> None:
    """Rows of the older schema stay as they are."""
