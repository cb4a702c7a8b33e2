"""Short common words: most tokenizers give each of them, with the space before it, a token of its own."""

from __future__ import annotations

__all__ = ["WORDS"]

_TEXT = """
about above across act add after again age ago air all along also am among an and animal another answer any area
arm army art as ask at away back bad bag ball bank bar base be bear beat bed been before begin being below best
better between big bird bit black blood blue board boat body book born both bottom box boy bread break bring brother
brown build building burn business but buy by call came can car card care carry case cat cause cell center century
chair chance change child children choose church circle city class clean clear clock close cloud club coast cold
color come common company complete contain control cook cool corner cost could country course cover cross cry cup
cut dance dark day dead deal death decide deep did die different dinner do doctor does dog done door down draw dream
dress drink drive drop dry during each ear early earth east easy eat edge effect egg eight either else end energy
engine enough even evening ever every example eye face fact fall family far farm fast father fear feel feet few
field fight fill film final find fine finger finish fire first fish five floor flow flower fly follow food foot for
force forest form forward four free fresh friend from front full game garden gas gave general get girl give glass go
god gold gone good got government grass great green ground group grow guess hair half hall hand happen happy hard
has hat have he head hear heart heat heavy held help her here high hill him his history hit hold hole home hope
horse hot hotel hour house how however human hundred hurt ice idea if image in inside into iron island issue it its
job join just keep key kill kind king kitchen knew know lady lake land language large last late laugh law lay lead
learn leave led left leg less let letter level lie life light like line list little live local long look lose lost
lot love low machine made main make man many map mark market matter may me mean measure meat meet member men metal
middle might mile milk mind minute miss moment money month moon more morning most mother mountain mouth move much
music must my name nation nature near need never new news next night nine no noise north nose not note nothing now
number of off office often oil old on once one only open or order other our out over own page paper parent part pass
past pay people perhaps person picture piece place plan plant play please point poor position possible power press
"""
WORDS = tuple(_TEXT.split())
