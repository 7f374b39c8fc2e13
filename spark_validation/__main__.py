import sys

from spark_validation.cli import main

sys.exit(main())
