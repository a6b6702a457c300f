"""Two tables: mammals with a taxonomy in four columns, and white wines with eleven measurements."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

from vpunn.datasets.catalog import Dataset, describe_dataset
from vpunn.datasets.fetch import fetch_dataset

if TYPE_CHECKING:
    import pandas as pd


def load_pantheria() -> pd.DataFrame:
    """PanTHERIA: 5,416 mammal species, four taxonomic levels and 50 columns of traits and surroundings.

    ``Order``, ``Family``, ``Genus`` and ``Species`` (with ``Binomial``) come first and are what ``Tree.from_levels``
    needs; the ``MSW05_`` prefix and the numbering of the columns (``5-1_AdultBodyMass_g``) are removed, so that a
    trait is called ``AdultBodyMass_g``. The file's −999 is NaN. ``attrs`` has title, version, licence and citation.

    >>> mammals = load_pantheria()
    >>> mammals.shape
    (5416, 55)
    >>> mammals[["Order", "Family", "Genus", "Species", "AdultBodyMass_g"]].head(2)
              Order     Family    Genus      Species  AdultBodyMass_g
    0  Artiodactyla  Camelidae  Camelus  dromedarius        492714.47
    1     Carnivora    Canidae    Canis      adustus         10392.49
    """
    import pandas as pd

    dataset = describe_dataset("pantheria")
    (path,) = fetch_dataset(dataset.key).values()
    content = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    missing = ["", "NA", "-999", "-999.00"]
    frame = pd.read_csv(io.BytesIO(content), sep="\t", na_values=missing, keep_default_na=False, encoding="latin-1")
    frame.columns = pd.Index([_COLUMN_NUMBER.sub("", name) for name in frame.columns])
    return _with_pedigree(frame, dataset)


_COLUMN_NUMBER = re.compile(r"^(MSW05_|\d+-\d+_)")


def load_wine_quality() -> pd.DataFrame:
    """UCI Wine Quality, the white wines: 4,898 rows, eleven measurements and ``quality`` (3 to 9) as the last column.

    937 rows repeat an earlier one; they are kept, so split by unique rows if a test row must not have been seen.

    >>> wine = load_wine_quality()
    >>> wine.shape, int(wine.duplicated().sum())
    ((4898, 12), 937)
    >>> wine["quality"].value_counts().sort_index().to_dict()
    {3: 20, 4: 163, 5: 1457, 6: 2198, 7: 880, 8: 175, 9: 5}
    """
    import pandas as pd

    dataset = describe_dataset("wine-quality")
    (path,) = fetch_dataset(dataset.key).values()
    return _with_pedigree(pd.read_csv(path, sep=";"), dataset)


def _with_pedigree(frame: pd.DataFrame, dataset: Dataset) -> pd.DataFrame:
    frame.attrs.update({name: getattr(dataset, name) for name in ("title", "version", "licence", "citation")})
    return frame
