"""The default vocabulary of `words` fields: English words of trade, the most common first."""

_TEXT = """
the please order and to leave at for with door in box a of deliver gift call before is on package front
ring bell not after customer back handle care wrap when side new if second floor green from card red
blue paper bag porch neighbour fragile morning no address evening phone number large small gate code
office desk reception sign check weekend house left right garden shed key under mat thanks happy
birthday message include receipt without price tag cold keep upright dry window first third black white
silver gold size medium colour model spare part replace return label print copy invoice company tax name
street corner building entrance lift stairs basement garage parking behind shop store market pick up
later today tomorrow monday friday holiday express standard slow courier van bike train airport harbour
island village city north south east west bridge river park school hospital hotel room apartment suite
block tower yard farm barn fence dog cat careful heavy light glass bottle wine coffee tea sugar salt
bread butter cheese apple orange lemon honey milk water oil book lamp chair table shelf drawer mirror
clock cable charger battery screen mouse keyboard printer camera lens tripod speaker headset guitar
piano drum shirt jacket coat shoe boot glove scarf hat belt watch necklace wallet suitcase backpack tent
rope torch knife fork spoon plate cup pan kettle oven fridge heater fan filter hose pump drill hammer
nail screw saw paint brush ladder bucket seed soil plant flower pot spade rake mower toy puzzle game
doll ball racket bat skate helmet saddle
"""

WORDS = tuple(_TEXT.split())
