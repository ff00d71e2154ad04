"""What happens when a part of the platform dies or is away while clients upload: done for real, and checked.

    python -m faults            against a `nexarch up` with its objects on S3
    python -m faults compose    against the containers

`make faults` and `make compose-faults` run it whole and write docs/faults.md.
"""
