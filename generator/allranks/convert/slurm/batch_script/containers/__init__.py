"""The containers that a script names, of Pyxis, Singularity (Apptainer) and their like."""
